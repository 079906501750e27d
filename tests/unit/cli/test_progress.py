import io

import pytest
from rich.console import Console

from perfkit.measure.bench import Event, PassStarted, RunFinished, RunStarted
from perfkit.record import Status
from perfkit_cli.progress import TimeLeft, show_progress


def finished(index: int, status: Status = Status.OK, reason: str = "", seconds: float = 10.0) -> RunFinished:
    return RunFinished(index, 4, "amp", 0, status, reason, seconds)


EVENTS: tuple[Event, ...] = (
    RunStarted(0, 4, "baseline", 0),
    PassStarted("warm-up"),
    RunFinished(0, 4, "baseline", 0, Status.OK, "", 12.0),
    RunStarted(1, 4, "amp", 0),
    finished(1, Status.OUT_OF_MEMORY, "out of memory at step 3"),
    RunStarted(2, 4, "pinned", 0),
    finished(2, Status.SKIPPED, "needs a GPU", 0.0),
)


def shown(console: Console) -> str:
    with show_progress(console) as progress:
        for event in EVENTS:
            progress(event)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_elsewhere_than_on_a_terminal_every_run_is_two_plain_lines() -> None:
    assert shown(Console(file=io.StringIO(), width=80)).splitlines() == [
        "[1/4] baseline, process 1: starting",
        "[1/4] baseline, process 1: done (12.0 s)",
        "[2/4] amp, process 1: starting, about 36.0 s left",
        "[2/4] amp, process 1: out of memory: out of memory at step 3 (10.0 s)",
        "[3/4] pinned, process 1: starting, about 22.0 s left",
        "[3/4] amp, process 1: skipped: needs a GPU",
    ]


def test_on_a_terminal_the_pass_and_what_is_left_are_shown_live() -> None:
    text = shown(Console(file=io.StringIO(), width=80, force_terminal=True))
    assert "[1/4] baseline, process 1: warm-up" in text
    assert "[2/4] amp, process 1: starting, about 36.0 s left" in text
    assert "[2/4] amp, process 1: out of memory: out of memory at step 3 (10.0 s)\n" in text


def test_on_a_terminal_nothing_is_drawn_between_events() -> None:
    import threading

    before = threading.active_count()
    with show_progress(Console(file=io.StringIO(), force_terminal=True)) as progress:
        progress(EVENTS[0])
        assert threading.active_count() == before


def test_a_quiet_console_shows_nothing() -> None:
    assert shown(Console(file=io.StringIO(), force_terminal=True, quiet=True)) == ""


def test_what_is_left_is_the_mean_of_the_runs_that_were_launched() -> None:
    left = TimeLeft()
    assert left.after(3) is None
    left.ended(finished(0, Status.SKIPPED, seconds=0.0))
    assert left.after(3) is None
    left.ended(finished(1, seconds=10.0))
    left.ended(finished(2, Status.FAILED, seconds=20.0))
    assert left.after(3) == pytest.approx(45.0)
