"""`perfkit plan`, then `perfkit run --plan` of a program that trains the same: predicted beside measured."""

import re
from typing import Any

import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from tests.fixtures.attached import SMALL

PROGRAM = """
import torch
from torch import nn

from perfkit import Workload


def model():
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))


def build():
    return Workload(
        name="mine",
        unit="samples",
        units_per_batch=256,
        build_model=model,
        build_optimizer=lambda net: torch.optim.AdamW(net.parameters()),
        make_batch=lambda generator: {"x": torch.rand(256, 64, generator=generator)},
        loss=lambda net, batch: net(batch["x"]).square().mean(),
    )


def train():
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(30):
        x = torch.rand(256, 64)
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    train()
"""


@pytest.mark.nightly
def test_a_program_of_its_own_is_held_against_the_plan_of_its_workload(perfkit: Any) -> None:
    (perfkit.folder / "train.py").write_text(PROGRAM)
    planned = perfkit("plan", "-w", "train.py:build", "-t", "ckpt", "--out", "plan")
    assert planned.returncode == 0, planned.stderr
    ran = perfkit("run", "--plan", "plan", "--out", "run", *SMALL, "train.py")
    assert ran.returncode == 0, ran.stderr
    analysis = msgspec.json.decode((perfkit.folder / "run" / "report.json").read_bytes(), type=Analysis)
    held = analysis.variants[0].prediction
    assert held is not None, analysis.warnings
    assert held.planned_before_run
    assert held.basis.startswith("baseline of train.py:build")
    assert re.search(r"device cpu, parameter bytes [\d.,]+ .*samples per step 256;", held.basis), held.basis
    assert held.basis.endswith("train: baseline, ckpt")
    assert held.peak is not None
    assert abs(held.peak.error) < 0.01
    errors = {part.name: part.error for part in held.categories}
    assert errors["parameter"] == errors["optimizer state"] == 0
