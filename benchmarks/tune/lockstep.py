"""Measures what a fault costs: two scripts take turns of a few steps each, so that both meet the same machine."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from scipy import stats

from benchmarks.tune.lockstep_worker import EAGER_RANDOM
from perfkit.core.spec import Struct

_STEPS = 1_000_000  # more than are ever run
_WARM_UP = 2  # turns


class TrueGain(Struct):
    """The share of the faulty step that is gone without the fault, with its 95 % interval over turns, and both steps in
    seconds."""

    share: float
    low: float
    high: float
    faulty_s: float
    clean_s: float
    turns: int


def measure_gain(faulty: Path, clean: Path, arguments: Sequence[str], *, turn: int, turns: int) -> TrueGain:
    """Measure so many turns of each script."""
    workers = [_start(script, arguments, turn) for script in (faulty, clean)]
    try:
        for worker in workers:
            _read_answer(worker)
        pairs = [[fmean(_take_turn(worker)) for worker in workers] for _ in range(_WARM_UP + turns)][_WARM_UP:]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    ratios = [math.log(clean_s / faulty_s) for faulty_s, clean_s in pairs]
    # Without the tenth at either end: on a shared machine some turns are interrupted.
    cut = len(ratios) // 10
    kept = sorted(ratios)[cut : len(ratios) - cut]
    center = fmean(kept)
    half = float(stats.t.ppf(0.975, len(kept) - 1)) * stdev(ratios) / math.sqrt(len(kept))
    return TrueGain(
        share=-math.expm1(center),
        low=-math.expm1(center + half),
        high=-math.expm1(center - half),
        faulty_s=sorted(pair[0] for pair in pairs)[len(pairs) // 2],
        clean_s=sorted(pair[1] for pair in pairs)[len(pairs) // 2],
        turns=len(pairs),
    )


def record_losses(script: Path, arguments: Sequence[str], steps: int, *, eager_random: bool = False) -> list[float]:
    """The losses of the first steps, and of all backward passes in them; with `eager_random`, compiled code draws the
    random numbers of eager code."""
    worker = _start(script, arguments, steps, eager_random=eager_random)
    try:
        losses = _read_answer(worker)["losses"]
        assert worker.stdin is not None, "the worker was started with a pipe"
        worker.stdin.write("\n")
        worker.stdin.flush()
        return [*losses, *_read_answer(worker)["losses"]]
    finally:
        worker.kill()
        worker.wait()


def _start(script: Path, arguments: Sequence[str], turn: int, *, eager_random: bool = False) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.tune.lockstep_worker", str(turn), str(script)]
    return subprocess.Popen(
        [*command, "--steps", str(_STEPS), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", EAGER_RANDOM: str(int(eager_random))},
    )


def _take_turn(worker: "subprocess.Popen[str]") -> list[float]:
    assert worker.stdin is not None, "the worker was started with a pipe"
    worker.stdin.write("\n")
    worker.stdin.flush()
    return _read_answer(worker)["times"]


def _read_answer(worker: "subprocess.Popen[str]") -> dict[str, list[float]]:
    assert worker.stdout is not None, "the worker was started with a pipe"
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError(f"{worker.args!r} ended before its turn")
    answer: dict[str, list[float]] = json.loads(line)
    return answer
