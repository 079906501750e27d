"""`perfkit tune` on a workload with a planted fault, and on one without."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perfkit.tune.model.tune_result import TuneResult, read_tune_result

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[1] / "programs" / "many_tensors.py"


def tune(perfkit: Any, function: str, *options: str) -> TuneResult:
    shutil.copy(PROGRAM, perfkit.folder / "train.py")
    ended = perfkit(
        "tune", "-w", f"train.py:{function}", "-t", "optim:use=fused", "--threads", "1", "--no-calibrate", "--budget",
        "4min", "--out", "tuned", *options, "-q",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return read_tune_result(perfkit.folder / "tuned")


@pytest.mark.nightly
def test_a_planted_fault_is_found_proven_patched_and_the_patch_can_be_taken_back(perfkit: Any) -> None:
    result = tune(perfkit, "build", "--apply")
    assert (result.conclusion, result.best) == ("proven", "optim:use=fused")
    assert len(result.trials) == 1
    assert result.proof is not None
    assert result.proof.high is not None
    assert result.proof.high < 1.0
    assert result.proof.parity in ("equal", "within tolerance")
    (technique,) = result.techniques
    assert shlex.split(technique.undo)[:6] == ["perfkit", "bench", "-w", "train.py:build", "-t", "baseline"]
    assert result.patch is not None
    assert (result.patch.holds, result.patch.written) == (True, ("optim:use=fused",))
    file = perfkit.folder / "train.py"
    patched = file.read_text()
    assert patched != PROGRAM.read_text()
    assert patched.count("fused=True") == 2
    for command, text in ((result.patch.undo, PROGRAM.read_text()), (result.patch.apply, patched)):
        subprocess.run(shlex.split(command), check=True, capture_output=True)
        assert file.read_text() == text


def test_a_clean_workload_is_left_alone(perfkit: Any) -> None:
    result = tune(perfkit, "build_clean")
    assert (result.conclusion, result.best, result.proof, result.patch) == ("no gain", "", None, None)
    assert not result.accepted
    assert json.loads((perfkit.folder / "tuned/tune.json").read_text())["spent_s"] < result.budget_s
