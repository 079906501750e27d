"""Tunes a script with `perfkit tune`, and measures what it accepted once more, independently."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from benchmarks.tune.lockstep import TrueGain, measure_gain, record_losses
from perfkit.core.spec import Struct
from perfkit.tune.model.tune_result import read_tune_result

_STEPS = 1_000_000  # more than are ever run
_BEYOND_BUDGET_S = 300
_COMPARED_LOSSES = 10


class TunedRun(Struct):
    """What a search did: the edits of the best variant, "" for none, and the number of trials.

    `measured` is the gain of its patch in turns with the script as it was, and `loss_difference` the largest relative
    difference of the first losses; None without a patch. `wrong` says why the patch should not have been accepted, ""
    if it should. `reason` says why there is no patch.
    """

    conclusion: str
    best: str
    trials: int
    spent_s: float
    measured: TrueGain | None = None
    loss_difference: float | None = None
    wrong: str = ""
    reason: str = ""


def tune_script(
    script: Path, arguments: Sequence[str], folder: Path, *, budget: str, turn: int, turns: int
) -> TunedRun:
    """Search for edits of a script, with the results in `folder`."""
    steps = ("--steps", str(_STEPS), *arguments)
    command = [sys.executable, "-m", "perfkit_cli", "tune", str(script), "--budget", budget, "--out", str(folder)]
    ended = subprocess.run(
        [*command, "--", *steps],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if not (folder / "tune.json").exists():
        raise RuntimeError(f"{script.name}: exit code {ended.returncode}\n{ended.stderr[-2000:]}")
    result = read_tune_result(folder)
    run = TunedRun(
        conclusion=result.conclusion, best=result.best, trials=len(result.trials), spent_s=round(result.spent_s, 1)
    )
    if result.conclusion != "proven" or result.patch is None or not result.patch.holds:
        reason = result.end_reason if not result.best or result.patch is None else result.patch.reason
        return replace(run, reason=reason)
    patched = _apply(result.patch.diff, script, folder / "patched")
    measured = measure_gain(script, patched, arguments, turn=turn, turns=turns)
    eager_random = result.proof is not None and result.proof.eager_random
    losses = [record_losses(each, arguments, _COMPARED_LOSSES, eager_random=eager_random) for each in (script, patched)]
    difference = max((abs(one - other) / max(abs(one), 1e-12) for one, other in zip(*losses, strict=True)), default=0.0)
    tolerance = result.patch.tolerance or 0.0
    if measured.high < 0:
        wrong = "slower"
    elif difference > tolerance:
        wrong = "trains differently"
    else:
        wrong = ""
    return replace(run, measured=measured, loss_difference=difference, wrong=wrong)


def _apply(diff: str, script: Path, folder: Path) -> Path:
    """A copy of the script with a patch."""
    folder.mkdir(parents=True, exist_ok=True)
    patched = folder / script.name
    subprocess.run(["patch", "--quiet", "-o", str(patched), str(script)], input=diff, text=True, check=True)
    return patched
