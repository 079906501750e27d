"""A rank that makes no progress for long reports once where it is, and goes on."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfkit.flight.record_file import write_flight_record
from perfkit.measure.rank import flight_dump
from perfkit_cli.run_script import program_moves, stalled_rank
from perfkit_cli.run_script.stalled_rank import Progress, StallClock, StallWatch
from tests.fixtures.flight_dumps import dump, entry


def find_stalls(*progress: tuple[int, int, int, int]) -> list[int]:
    """The polls, 2 s apart, at which a stall of at least 6 s is noticed."""
    clock = StallClock(least_s=6.0, poll_s=2.0)
    return [poll for poll, counts in enumerate(progress) if clock.is_stalled(Progress(*counts))]


def test_steps_that_stand_still_are_a_stall_once() -> None:
    assert find_stalls((3, 0, 0, 0), *[(4, 0, 0, 0)] * 9) == [4]


def test_a_pause_as_long_as_earlier_ones_is_none() -> None:
    """The longest was 4 s: a stall takes ten times as long."""
    earlier = [(1, 0, 0, 0)] * 3
    assert find_stalls(*earlier, *[(2, 0, 0, 0)] * 20) == []
    assert find_stalls(*earlier, *[(2, 0, 0, 0)] * 30) == [3 + 20]


@pytest.mark.parametrize(
    ("before", "stalls"),
    [
        ((0, 1, 0, 0), []),  # data may be prepared
        ((0, 1, 5, 5), []),
        ((0, 1, 6, 5), [3]),  # another rank never entered it
        ((7, 2, 0, 0), [3]),
        ((7, 2, 5, 5), [3]),
    ],
)
def test_what_tells_progress_before_the_first_step_and_after_it(
    before: tuple[int, int, int, int], stalls: list[int]
) -> None:
    assert find_stalls(*[before] * 8) == stalls


def test_a_program_that_moves_without_steps_is_none() -> None:
    """It evaluates, or it saves."""
    assert find_stalls(*[(7, move, 0, 0) for move in range(12)]) == []


def test_the_report_of_a_rank_that_goes_on(tmp_path: Path, monkeypatch, capfd) -> None:
    waits = dump(entry(4), entry(5, "broadcast", ended=False))
    monkeypatch.setattr(
        flight_dump, "save_flight_record", lambda folder: write_flight_record(folder / "flight_recorder.json.gz", waits)
    )
    monkeypatch.setattr(stalled_rank, "_count_collectives", lambda: (5, 4))
    told = threading.Event()
    write_line = stalled_rank.write_line
    monkeypatch.setattr(stalled_rank, "write_line", lambda text: (write_line(text), told.set()))
    profile: Any = SimpleNamespace(steps=8, updates=0, folder=tmp_path)
    watch = StallWatch(profile, 2, StallClock(least_s=0.01, poll_s=0.01))
    watch.start()
    assert told.wait(30)
    watch.stop()
    folder = tmp_path / "stalled" / "rank2"
    assert "in test_the_report_of_a_rank_that_goes_on" in (folder / "stacks.txt").read_text()
    assert (folder / "flight_recorder.json.gz").is_file()
    [line] = capfd.readouterr().err.splitlines()
    assert ("rank 2" in line, "waiting in broadcast 5 of default_pg" in line, str(folder) in line) == (True,) * 3


def test_a_rank_outside_collectives_is_at_a_line_of_its_program(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(flight_dump, "save_flight_record", lambda _: None)
    from perfkit_cli.run_script.left_report import leave_report

    assert f"{Path(__file__)}:" in leave_report(tmp_path / "a")
    ended = dump(entry(11))
    monkeypatch.setattr(
        flight_dump, "save_flight_record", lambda folder: write_flight_record(folder / "flight_recorder.json.gz", ended)
    )
    place = leave_report(tmp_path / "b")
    assert ("after all_reduce 11" in place, f"{Path(__file__)}:" in place) == (True, True)


def test_a_program_that_stands_still_after_the_last_recording_is_a_stall(tmp_path: Path, monkeypatch) -> None:
    """It has no process group, and its steps are not counted any more."""
    told = threading.Event()
    monkeypatch.setattr(stalled_rank, "write_line", lambda _text: told.set())
    monkeypatch.setattr(program_moves, "_APART_S", 0.0)
    profile: Any = SimpleNamespace(steps=40, updates=7, folder=tmp_path)
    watch = StallWatch(profile, 0, StallClock(least_s=0.05, poll_s=0.01))
    watch.start()
    assert told.wait(30)
    watch.stop()
    assert (tmp_path / "stalled" / "rank0" / "stacks.txt").is_file()
