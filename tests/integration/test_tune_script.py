"""`perfkit tune SCRIPT`: a planted fault is found, edited and proven; a script without one stays as it is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfkit.tune.script.compare_edits import compare_edited_losses
from perfkit.tune.script.judge_edits import LossReference, compare_losses
from perfkit.tune.script.script_bench import ScriptBench
from perfkit.tune.script.script_copies import read_sources
from perfkit.tune.script.script_request import ScriptRequest

pytestmark = pytest.mark.slow

PARTS = """
import torch
from torch import nn

def build():
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(8)], nn.Linear(32, 10))
    return model, torch.optim.SGD(model.parameters(), lr=1e-2)
"""
TRAIN = """
import gc
import sys
import torch
from parts import build

{seed}
model, optimizer = build()
for step in range(int(sys.argv[1])):
    x = torch.randn(16, 32)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    {fault}
open("made.txt", "w").write("ended")
"""


def write_script(folder: Path, fault: str = "pass", seed: str = "torch.manual_seed(0)") -> str:
    """Write the script and its module; returns the script's text."""
    text = TRAIN.format(fault=fault, seed=seed)
    (folder / "train.py").write_text(text)
    (folder / "parts.py").write_text(PARTS)
    return text


def tune(folder: Path, *options: str, steps: int = 10**7) -> tuple[int, dict[str, Any]]:
    """The exit code and the result of a search in which everything is measured that can be."""
    command = [sys.executable, "-m", "perfkit_cli", "tune", "--budget", "5min", "--json", "--out", "out", *options]
    done = subprocess.run(
        [*command, "train.py", "--", str(steps)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.nightly
def test_a_planted_fault_is_taken_out_and_the_rest_stays(tmp_path: Path) -> None:
    text = write_script(tmp_path, "gc.collect()")
    code, result = tune(tmp_path, "-t", "leftovers", "--apply")
    assert (code, result["conclusion"], result["best"]) == (0, "proven", "leftovers")
    assert result["proof"]["high"] < 1.0
    assert result["proof"]["parity"] == "equal"
    assert result["patch"]["holds"]
    assert (tmp_path / "train.py").read_text() == text.replace("    gc.collect()\n", "")
    assert (tmp_path / "parts.py").read_text() == PARTS
    assert not (tmp_path / "made.txt").exists()
    assert (tmp_path / "out/tuned.patch").read_text().count("\n-") == 2  # the file's name, and the line


def test_a_script_without_a_fault_stays(tmp_path: Path) -> None:
    text = write_script(tmp_path)
    code, result = tune(tmp_path, "-t", "leftovers,zero_grad,data,flash", "--apply")
    assert (code, result["conclusion"], result["best"], result["trials"]) == (0, "no gain", "", [])
    assert result["patch"]["diff"] == ""
    assert (tmp_path / "train.py").read_text() == text
    assert not (tmp_path / "out/tuned.patch").exists()


@pytest.mark.nightly  # how losses decide is also tested without processes
def test_without_comparable_losses_nothing_that_rounds_counts(tmp_path: Path) -> None:
    write_script(tmp_path, seed="torch.seed()")
    code, result = tune(tmp_path, "-t", "optim:use=fused")
    assert (code, result["best"]) == (0, "")
    assert {trial["outcome"] for trial in result["trials"]} <= {"losses differ"}


def test_a_script_that_trains_too_briefly_is_refused(tmp_path: Path) -> None:
    write_script(tmp_path, "gc.collect()")
    command = [sys.executable, "-m", "perfkit_cli", "tune", "--json", "-t", "leftovers", "train.py", "--", "12"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["id"] == "tune.script_ended"


def test_losses_of_compiled_dropout_are_compared_with_the_random_numbers_of_eager_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_script(tmp_path)
    (tmp_path / "parts.py").write_text(PARTS.replace("nn.Linear(32, 10)", "nn.Dropout(0.3), nn.Linear(32, 10)"))
    monkeypatch.chdir(tmp_path)
    request = ScriptRequest(
        Path("train.py"), (str(10**7),), ("compile",), "compile", "time", "tolerance", budget_s=60.0, timeout_s=600.0
    )
    bench = ScriptBench(request, tmp_path / "out", lambda _: None)
    bench.sources = read_sources(bench.root, bench.script, ("parts.py",))
    edits = ("compile",)
    steps = bench.measure([(), edits], 0.0)
    reference = LossReference()
    reference.originals = [steps["original"].notes.losses]
    own = steps["compile"].notes.losses
    assert compare_losses(own, reference, edits).verdict == "differs"
    compared = compare_edited_losses(bench, edits, own, reference)
    assert (compared.verdict != "differs", compared.eager_random) == (True, True)
