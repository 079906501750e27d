"""A launch writes down how it ended, whatever launcher it has and whoever ended it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from perfkit.core.errors import TerminatedError
from perfkit.core.files import read_json, write_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.measure.launch import run_launch as launching
from perfkit.measure.launch.launcher import ExitCodes, Report
from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.measure.launch.run_launch import launch_run
from tests.fixtures.figures import list_rank_and_signal


class _Ranks:
    """Of a launcher that starts nothing, and whose ranks do what `waiting` does."""

    def __init__(self, waiting: BaseException | bool, *, raises: bool = False) -> None:
        self.waiting = waiting
        self.raises = raises
        self.ended = False

    def wait(self, timeout_s: float, report: Report) -> bool:
        if isinstance(self.waiting, BaseException):
            raise self.waiting
        return self.waiting

    def end(self) -> None:
        self.ended = True

    def exits(self) -> ExitCodes:
        assert self.ended
        return ExitCodes((-9,))

    def check(self, launch: LaunchSpec) -> None: ...

    def start(self, spec: RunSpec, folder: Path, place: RankPlace, under: Sequence[str], report: Report) -> "_Ranks":
        assert read_json(folder / "spec.json", RunSpec) == spec
        if self.raises:
            record = RankRecord(rank=0, world_size=1, status=RunStatus.FAILED, reason="ValueError: sample 3")
            write_json(folder / "rank0" / "record.json", record)
        return self

    def give_back(self) -> None: ...


@pytest.fixture
def run_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(launcher="fake", timeout_s=7.0))

    def launched(waiting: BaseException | bool, *, raises: bool = False) -> RunResult:
        ranks = _Ranks(waiting, raises=raises)
        monkeypatch.setattr(launching.LAUNCHERS, "load", {"fake": ranks}.__getitem__)
        try:
            launch_run(spec, tmp_path / "run", lambda _: None)
        finally:
            assert ranks.ended
        return read_json(tmp_path / "run" / "run.json", RunResult)

    return launched


@pytest.mark.parametrize(
    ("error", "reason"),
    [(KeyboardInterrupt, "interrupted by Ctrl-C"), (TerminatedError, "terminated (SIGTERM)")],
)
def test_the_signal_is_told(tmp_path: Path, run_of, error: type[KeyboardInterrupt], reason: str) -> None:
    with pytest.raises(error):
        run_of(error())
    run = read_json(tmp_path / "run" / "run.json", RunResult)
    assert (run.status, run.reason, run.exit_codes) == (RunStatus.INTERRUPTED, reason, (-9,))


def test_ranks_that_have_not_ended_in_time(run_of) -> None:
    run = run_of(False)
    assert run.status == RunStatus.TIMEOUT
    assert "7.00 s (--timeout)" in run.reason


def test_a_rank_that_raises_and_does_not_end_in_time_has_raised(run_of) -> None:
    run = run_of(False, raises=True)
    assert (run.status, run.reason) == (RunStatus.FAILED, "ValueError: sample 3")


def test_ranks_that_have_ended_tell_how(run_of) -> None:
    run = run_of(True)
    assert run.status == RunStatus.CRASHED
    assert list_rank_and_signal(run.reason) == ["rank 0", "SIGKILL"]
