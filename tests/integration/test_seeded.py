"""Compiled code that draws random numbers is held against the baseline with the numbers of eager code."""

import subprocess
import sys
from pathlib import Path

import pytest

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.suite.parity import SEEDED

TRAIN = """
import torch
from torch import nn

import perfkit


def build():
    return perfkit.Workload(
        name="dropout", unit="samples", units_per_batch=8,
        build_model=lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 1)),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.randn(8, 16, generator=generator)},
        loss=lambda model, batch: (model(batch["x"]) - 1).square().mean(),
    )
"""


@pytest.mark.usefixtures("compiled_once")
@pytest.mark.nightly
def test_dropout_under_compile_is_compared(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    command = (sys.executable, "-m", "perfkit_cli", "bench", "-w", "train.py:build", "-t", "compile", "--out", "suite")
    schedule = ("--rounds", "0", "--steps", "6", "--warmup", "5", "--threads", "1", "--no-calibrate")
    done = subprocess.run((*command, *schedule), cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    [compiled] = [variant for variant in analyze_suite(tmp_path / "suite").variants if variant.name == "compile"]
    assert compiled.parity.verdict in ("equal", "within tolerance"), compiled.parity
    assert SEEDED in compiled.parity.basis
    assert compiled.parity.steps == 10
    assert not any("seeded" in note.text for note in compiled.warnings)
