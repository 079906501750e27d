"""Where the ranks of a failed run were, from what they left of their flight recorders."""

import pickle
import signal
from pathlib import Path
from typing import Any

import pytest

from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RankWait, RunResult
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.flight.record_file import write_flight_record
from perfkit.measure.launch.launcher import ExitCodes
from perfkit.measure.launch.run_outcome import describe_mismatch, determine_outcome, read_flight_records
from tests.fixtures.figures import list_rank_and_signal
from tests.fixtures.flight_dumps import dump, entry


def left(folder: Path, *ranks: dict[str, Any]) -> Path:
    for rank, each in enumerate(ranks):
        write_flight_record(folder / f"rank{rank}" / "flight_recorder.json.gz", each)
    return folder


def ended(folder: Path, by_parent: RunStatus | None) -> RunResult:
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(world_size=2, timeout_s=90))
    return determine_outcome(spec, folder, by_parent, ExitCodes((-15, -15)))


def waiting(number: int) -> dict[str, Any]:
    return entry(number, backend="gloo", ended=False)


def test_a_run_that_took_too_long_names_who_had_not_come(tmp_path: Path) -> None:
    done = entry(1, backend="gloo")
    run = ended(left(tmp_path, dump(done, waiting(2), waiting(3)), dump(done)), RunStatus.TIMEOUT)
    assert "90.0 s (--timeout)" in run.reason
    assert "all_reduce 2 of default_pg" in run.reason
    site = "/home/me/train.py:12 (loss)"
    told: dict[str, Any] = {"op": "all_reduce", "group": "default_pg", "call_site": site}
    told |= {"tensors": "[4, 1024] fp32", "bytes": 16384}
    assert run.rank_waits == (
        RankWait(rank=0, sequence=2, finished=False, **told),
        RankWait(rank=1, sequence=1, finished=True, **told),
    )


def test_a_run_that_crashed_keeps_its_own_reason(tmp_path: Path) -> None:
    run = ended(left(tmp_path, dump(waiting(2)), dump()), None)
    assert run.status == RunStatus.CRASHED
    assert list_rank_and_signal(run.reason) == ["rank 0", "SIGTERM"]
    assert [wait.rank for wait in run.rank_waits] == [0]


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([dump(waiting(1)), dump(waiting(1))], ""),
        ([dump(waiting(1)), dump({**waiting(1), "profiling_name": "gloo:reduce"})], "collective 1 of group default_pg"),
        ([dump(entry(1, backend="gloo")), dump()], "rank 1 never entered all_reduce 1 of default_pg"),
    ],
)
def test_what_is_said_of_ranks_that_do_not_meet(tmp_path: Path, ranks: list[dict[str, Any]], said: str) -> None:
    told = describe_mismatch(read_flight_records(left(tmp_path, *ranks), range(3)))
    assert said in told
    assert bool(told) == bool(said)


def test_a_rank_without_a_record_is_one_of_gloos_default_group(tmp_path: Path) -> None:
    """Whose dumps name no ranks."""
    unnamed = dump(waiting(3), groups={("", ""): ()})
    run = ended(left(tmp_path, unnamed), RunStatus.TIMEOUT)
    assert "rank 1 left no record of all_reduce 3 of default_pg" in run.reason


def test_calls_that_differ_come_before_the_signal_that_they_end_in(tmp_path: Path) -> None:
    """Gloo ends the rank that gets more than it expects, and the other loses it."""
    sizes = {rank: waiting(5) | {"input_sizes": [[rank + 6]], "output_sizes": [[rank + 6]]} for rank in (0, 1)}
    folder = left(tmp_path, dump(sizes[0]), dump(sizes[1]))
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(world_size=2))
    run = determine_outcome(spec, folder, None, ExitCodes((-signal.SIGABRT, 1), (0, 1)))
    assert run.status == RunStatus.CRASHED
    calls, signalled = run.reason.split("; rank 0 was ")
    assert "collective 5 of group default_pg" in calls
    assert ("[6] fp32" in calls, "[7] fp32" in calls, "SIGABRT" in signalled) == (True, True, True)


def test_records_of_a_format_that_is_not_known_are_none(tmp_path: Path) -> None:
    assert read_flight_records(left(tmp_path, dump(waiting(1), version="4.0")), range(2)) == {}
    assert ended(tmp_path, RunStatus.TIMEOUT).rank_waits == ()


def test_a_rank_that_the_watchdog_ended_is_known_by_its_dump(tmp_path: Path) -> None:
    left(tmp_path, dump(waiting(1)))
    for rank, number in ((0, 5), (1, 7)):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump(entry(number)), 2))
    found = read_flight_records(tmp_path, range(2))
    assert [(rank, record.collectives[0].number) for rank, record in found.items()] == [(0, 1), (1, 7)]
