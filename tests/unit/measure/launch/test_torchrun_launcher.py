"""How the ranks of a run that torchrun started ended, from what its agent left."""

import signal
import socket
from pathlib import Path

import msgspec
import pytest

from perfkit.core.errors import PerfkitError
from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.measure.launch.rank_processes import HERE
from perfkit.measure.launch.run_outcome import determine_outcome
from perfkit.measure.launch.torchrun_launcher import TORCHRUN, AgentExits, read_exits
from perfkit.measure.schedule import NOT_SKIPPED, build_schedule
from perfkit.store.request import BenchRequest
from perfkit.techniques.base.technique import RankRequirement
from tests.fixtures.figures import list_rank_and_signal

TERM, KILL = -signal.SIGTERM, -signal.SIGKILL
THREE = LaunchSpec(world_size=3, launcher="torchrun")


def test_all_ranks_well(tmp_path: Path) -> None:
    assert read_exits(tmp_path, THREE, 0) == ((0, 0, 0), (0, 1, 2), "")


@pytest.mark.parametrize(
    ("ended", "codes", "order"),
    [
        (((1, KILL), (0, TERM)), (TERM, KILL, 0), [1]),
        (((0, 1), (1, KILL)), (1, KILL, 0), [0, 1]),
        (((2, 1), (0, TERM), (1, TERM)), (TERM, TERM, 1), [2]),
        (((1, TERM), (0, TERM)), (TERM, TERM, 0), [1]),
    ],
)
def test_ranks_that_the_agent_ended_did_not_end_by_themselves(tmp_path: Path, ended, codes, order) -> None:
    write_json(tmp_path / "agent0.json", AgentExits(ended=ended))
    assert read_exits(tmp_path, THREE, 1) == (codes, tuple(order), "")


def test_what_the_agents_of_all_machines_saw_counts(tmp_path: Path) -> None:
    launch = LaunchSpec(world_size=4, launcher="torchrun", nodes=2, endpoint="host:29500")
    write_json(tmp_path / "agent0.json", AgentExits(ended=((0, 1), (1, TERM))))
    write_json(tmp_path / "agent1.json", AgentExits(ended=((3, KILL), (2, TERM))))
    assert read_exits(tmp_path, launch, 1) == ((1, TERM, TERM, KILL), (0, 3), "")


def test_a_port_for_the_agents_that_is_in_use_is_named_before_machines_are_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as used:
        port = used.getsockname()[1]
        launch = LaunchSpec(world_size=2, launcher="torchrun", nodes=2, endpoint=f"127.0.0.1:{port - 1}")
        spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=launch)
        with pytest.raises(PerfkitError, match=f"port {port} .*--rdzv-endpoint"):
            TORCHRUN.start(spec, tmp_path, HERE, (), lambda _: None)


def test_a_rank_that_was_killed_explains_the_run_whatever_was_seen_first(tmp_path: Path) -> None:
    lost = RankRecord(rank=0, world_size=2, status=RunStatus.FAILED, reason="RuntimeError: Connection closed by peer")
    killed = RankRecord(rank=1, world_size=2, status=RunStatus.CRASHED, reason="it")
    for record in (lost, killed):
        write_json(tmp_path / f"rank{record.rank}" / "record.json", record)
    write_json(tmp_path / "agent0.json", AgentExits(ended=((0, 1), (1, KILL))))
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(world_size=2, launcher="torchrun"))
    run = determine_outcome(spec, tmp_path, None, read_exits(tmp_path, spec.launch, 1))
    assert (run.status, run.exit_codes) == (RunStatus.CRASHED, (1, KILL))
    assert list_rank_and_signal(run.reason) == ["rank 1", "SIGKILL"]


def test_an_agent_that_failed_itself_is_told_with_what_it_said(tmp_path: Path) -> None:
    (tmp_path / "agent0.log").write_text("RendezvousConnectionError\n")
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(world_size=2, launcher="torchrun"))
    run = determine_outcome(spec, tmp_path, None, read_exits(tmp_path, spec.launch, 1))
    assert (run.status, run.exit_codes) == (RunStatus.CRASHED, (None, None))
    assert "torchrun's agent" in run.reason
    assert run.output_tail == "torchrun:\nRendezvousConnectionError"


def test_every_run_of_a_suite_has_its_launcher_and_a_run_to_itself() -> None:
    request = BenchRequest(workload=WorkloadSpec(name="gpt"), variants=((),), device="cpu", device_count=1, cores=2)
    assert request.by_turns
    torchrun = msgspec.structs.replace(request, launcher="torchrun")
    assert not torchrun.by_turns
    schedule = build_schedule(torchrun, lambda _: RankRequirement(1, 1), lambda *_: NOT_SKIPPED)
    assert {run.spec.launch.launcher for run in schedule.runs} == {"torchrun"}
