"""A rank that fails ends the run with its own traceback and says who waited where; nothing stays behind.

`make soak` runs this file many times.
"""

import os
import re
from pathlib import Path

import psutil
import pytest

from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, TechniqueSpec, WorkloadSpec
from perfkit.measure.launch import process_launcher, torchrun_launcher
from perfkit.measure.launch.process_output import Deadline
from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.measure.launch.run_launch import launch_run

TURNS = int(os.environ.get("PERFKIT_SOAK", "1"))
TIMEOUT_S = 120.0
HANG_S = 4.0  # ranks that train are left to hang for so long, however long they took to start

# What rank 1 does at its third loss; rank 0 is then in the all-reduce of its gradients.
WORKLOAD = """
import os, signal, time
from pathlib import Path
import torch
from torch import nn
from perfkit import Workload

def broken_helper():
    raise RuntimeError("the user's own mistake")

FAULTS = {
    "raise": broken_helper,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "memory": lambda: torch.empty(1 << 50),
    "hang": lambda: time.sleep(1000),
}

def build(fault):
    Path("pid" + os.environ["RANK"]).write_text(str(os.getpid()))
    calls = 0

    def loss(model, batch):
        nonlocal calls
        calls += 1
        if calls == 3 and os.environ["RANK"] == "1":
            FAULTS[fault]()
        return model(batch["x"]).square().mean()

    return Workload(
        name="mine",
        unit="samples",
        units_per_batch=4,
        build_model=lambda: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1)),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.randn(4, 8, generator=generator)},
        loss=loss,
    )
"""
EXPECTED = {
    "raise": (RunStatus.FAILED, "rank 1: RuntimeError: the user's own mistake"),
    "kill": (RunStatus.CRASHED, "rank 1 .*SIGKILL"),
    "memory": (RunStatus.OUT_OF_MEMORY, r"rank 1: .*step 1\b"),
    "hang": (RunStatus.TIMEOUT, r".*2 min 0 s \(--timeout\).* rank 1 .*\bbroadcast\b"),
}


# One turn after another: those that only wait come between those that work.
@pytest.mark.parametrize("launcher", ["process", "torchrun"])
@pytest.mark.parametrize("fault", EXPECTED)
@pytest.mark.parametrize("turn", range(TURNS))
def test_the_rank_that_fails_is_named_and_where_the_other_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, fault: str, turn: int
) -> None:
    if (launcher, fault, TURNS) == ("process", "hang", 1):
        pytest.skip("the command line's own test waits for this one")
    (tmp_path / "mine.py").write_text(WORKLOAD)
    spec = RunSpec(
        workload=WorkloadSpec(name="mine.py:build", params={"fault": fault}),
        techniques=(TechniqueSpec(name="ddp"),),
        schedule=Schedule(warmup=1, max_warmup=1, timed=5),
        launch=LaunchSpec(world_size=2, threads=1, timeout_s=TIMEOUT_S, launcher=launcher),
        passes=(),
    )
    told: list[str] = []
    deadlines: list[Deadline] = []

    def make_deadline(within_s: float) -> Deadline:
        deadlines.append(Deadline(within_s))
        return deadlines[-1]

    def report(line: str) -> None:
        told.append(line)
        if (fault, line) == ("hang", "timed steps"):
            deadlines[-1].shorten(HANG_S)

    for launching in (process_launcher, torchrun_launcher):
        monkeypatch.setattr(launching, "Deadline", make_deadline)
    run = launch_run(spec, tmp_path / "run", report, place=RankPlace(folder=tmp_path))
    assert "timed steps" in told
    assert len(told) == len(set(told))  # of one rank
    status, reason = EXPECTED[fault]
    assert run.status == status, run
    assert re.match(reason, run.reason)
    [waited] = [wait for wait in run.rank_waits if wait.rank == 0]
    assert (waited.op, waited.group) == ("broadcast", "default_pg")
    assert waited.call_site
    assert [wait.rank for wait in run.rank_waits] == ([0] if fault == "kill" else [0, 1])
    pids = [int((tmp_path / f"pid{rank}").read_text()) for rank in range(2)]
    assert not any(psutil.pid_exists(pid) for pid in pids)
