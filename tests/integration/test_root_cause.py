"""Of several ranks the one that failed by itself explains the run, whatever the others say of its being gone."""

import re
from pathlib import Path

import pytest

from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult, find_traceback
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, parse_workload
from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.measure.launch.run_launch import launch_run

WORKLOAD = """
import os, signal, sys
import torch
from torch import nn
from perfkit import Workload

def build(fault):
    calls = 0

    def loss(model, batch):
        nonlocal calls
        calls += 1
        if os.environ["RANK"] == "1" and calls == 3:
            if fault == "raise":
                raise ValueError("the cause")
            if fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            sys.exit(3) if fault == "exit" else os._exit(7)
        return model(batch["x"]).square().mean()

    return Workload(
        name="mine", unit="samples", units_per_batch=4, loss=loss,
        build_model=lambda: nn.Linear(8, 1),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.randn(4, 8, generator=generator)},
    )
"""


def run_two(folder: Path, fault: str) -> tuple[RunResult, str]:
    (folder / "mine.py").write_text(WORKLOAD)
    spec = RunSpec(
        workload=parse_workload(f"mine.py:build:fault={fault}", ()),
        schedule=Schedule(warmup=5, timed=3),
        launch=LaunchSpec(world_size=2, threads=1, timeout_s=120),
        passes=(),
    )
    run = launch_run(spec, folder / "run", lambda _: None, place=RankPlace(folder=folder))
    records = [read_json(path, RankRecord) for path in sorted((folder / "run").glob("rank*/record.json"))]
    return run, find_traceback(run, records)


@pytest.mark.parametrize(
    ("fault", "status", "reason", "traceback"),
    [
        ("raise", RunStatus.FAILED, "rank 1: ValueError: the cause", 'raise ValueError("the cause")'),
        ("kill", RunStatus.CRASHED, "rank 1 .*SIGKILL", ""),
        ("exit", RunStatus.FAILED, "rank 1: SystemExit: 3", "sys.exit(3)"),
        ("_exit", RunStatus.CRASHED, r"rank 1 .*\b7\b", ""),
    ],
)
def test_the_rank_that_failed_by_itself_is_named(
    tmp_path: Path, fault: str, status: RunStatus, reason: str, traceback: str
) -> None:
    run, shown = run_two(tmp_path, fault)
    assert run.status == status
    assert re.match(reason, run.reason)
    assert traceback in shown
    assert bool(shown) == bool(traceback)
    assert run.output_tail.startswith("rank 1:") or not traceback
