"""Two agents of torchrun, each with a rank, as two machines would have them: one launches, the other has joined."""

import re
from pathlib import Path

import pytest

from perfkit.core.errors import PerfkitError
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, TechniqueSpec, WorkloadSpec
from perfkit.measure.launch.join_secret import make_secret
from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.measure.launch.run_launch import launch_run
from tests.fixtures.endpoints import free_endpoint
from tests.integration.test_rank_failures import WORKLOAD


def test_a_rank_that_is_killed_on_the_other_is_named(perfkit, monkeypatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    perfkit.environment["GLOO_SOCKET_IFNAME"] = "lo"
    perfkit.environment["PERFKIT_SECRET"] = secret = make_secret()
    monkeypatch.setenv("PERFKIT_SECRET", secret)
    folder: Path = perfkit.folder
    (folder / "mine.py").write_text(WORKLOAD)
    where = free_endpoint()
    other = perfkit.start("join", where, "--node-rank", "1")
    spec = RunSpec(
        workload=WorkloadSpec(name="mine.py:build", params={"fault": "kill"}),
        techniques=(TechniqueSpec(name="ddp"),),
        schedule=Schedule(warmup=1, max_warmup=1, timed=5),
        launch=LaunchSpec(world_size=2, threads=1, timeout_s=120.0, launcher="torchrun", nodes=2, endpoint=where),
        passes=(),
    )
    run = launch_run(spec, folder / "run", lambda _: None, place=RankPlace(folder=folder))
    assert run.status == RunStatus.CRASHED, run
    assert re.match(r"rank 1 .*SIGKILL", run.reason)
    assert [(wait.rank, wait.op) for wait in run.rank_waits] == [(0, "broadcast")]
    assert other.poll() is None  # it waits for the next
    other.terminate()
    other.communicate(timeout=30)
    with pytest.raises(PerfkitError, match="machine 1 of 2"):
        launch_run(spec, folder / "next", lambda _: None, place=RankPlace(folder=folder))
