"""What becomes of a recording that has ended."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfkit.attach.host import run_report as reports
from perfkit.attach.host.run_report import run_report_command, send_report, wait_for_ranks, write_report
from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.store.layout import RECORD_FILE, get_rank_folder


class Clock:
    """Time that passes only by sleeping; `at` says what happens when."""

    def __init__(self, at: dict[float, Any] | None = None) -> None:
        self.now = 0.0
        self.at = at or {}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for when in [each for each in self.at if each <= self.now]:
            self.at.pop(when)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(reports, "time", made)
    return made


def write(run: Path, rank: int, status: RunStatus) -> None:
    write_json(get_rank_folder(run, rank) / RECORD_FILE, RankRecord(rank=rank, world_size=2, status=status))


def test_ranks_that_have_ended_are_not_waited_for(tmp_path: Path, clock: Clock) -> None:
    write(tmp_path, 0, RunStatus.OK)
    write(tmp_path, 1, RunStatus.FAILED)
    wait_for_ranks(tmp_path, 2)
    assert clock.now == 0


def test_a_rank_that_is_late_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    write(tmp_path, 0, RunStatus.OK)
    clock.at = {1.0: lambda: write(tmp_path, 1, RunStatus.CRASHED), 3.0: lambda: write(tmp_path, 1, RunStatus.OK)}
    wait_for_ranks(tmp_path, 2)
    assert clock.now == pytest.approx(3.0, abs=0.2)


def test_ranks_that_never_end_are_waited_for_once(tmp_path: Path, clock: Clock) -> None:
    write(tmp_path, 0, RunStatus.CRASHED)
    wait_for_ranks(tmp_path, 8)
    assert clock.now == pytest.approx(reports.PATIENCE_S, abs=0.2)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was run: `perfkit report` that fails where the folder is called `bad`."""
    run: list[dict[str, Any]] = []

    def fake(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        run.append({"command": command, **options})
        failed = any(each.endswith("bad") for each in command)
        return subprocess.CompletedProcess(command, int(failed), "", "no such run\n" if failed else "")

    monkeypatch.setattr(subprocess, "run", fake)
    return run


def test_a_report_is_made_in_a_process_of_its_own(commands: list[dict[str, Any]], caplog: Any) -> None:
    assert write_report(Path("good"))
    [ran] = commands
    assert ran["command"] == [sys.executable, "-P", "-m", "perfkit_cli", "report", "good", "--quiet"]
    assert ran["env"]["CUDA_VISIBLE_DEVICES"] == ""
    assert (ran["stdin"], ran["capture_output"]) == (subprocess.DEVNULL, True)
    assert caplog.records == []


def test_a_report_that_fails_is_logged(commands: list[dict[str, Any]], caplog: pytest.LogCaptureFixture) -> None:
    assert not write_report(Path("bad"))
    [line] = caplog.records
    assert line.levelno == logging.WARNING
    assert "`perfkit report bad`: " in line.getMessage()


def test_options_of_a_report(commands: list[dict[str, Any]]) -> None:
    run_report_command(Path("good"), "--notebook")
    assert commands[0]["command"][-2:] == ["good", "--notebook"]


class Delivery:
    def __init__(self) -> None:
        self.closed: list[tuple[float, Path | None]] = []

    def close(self, timeout_s: float, report: Path | None = None) -> bool:
        self.closed.append((timeout_s, report))
        return True


@pytest.mark.parametrize("report", [None, Path("run")])
def test_all_loggers_are_closed_with_the_report_if_there_is_one(report: Path | None) -> None:
    deliveries: Any = [Delivery(), Delivery()]
    send_report(deliveries, report)
    assert [each.closed for each in deliveries] == [[(reports.PATIENCE_S, report)]] * 2
