"""The ranges of a loop's phases, of loops told by hand."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from perfkit.attach.loop import phase_marks
from perfkit.attach.loop.phase_marks import PhaseMarks, follow_marks, get_followed_marks


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What begins (`+`) and ends (`-`), in order."""
    log: list[str] = []

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        log.append(f"+{name}")
        yield
        log.append(f"-{name}")

    monkeypatch.setattr(phase_marks, "mark_phase", phase)
    return log


def marks() -> PhaseMarks:
    made = PhaseMarks()
    made.on = True
    return made


def test_each_phase_lasts_until_the_next_begins(marked: list[str]) -> None:
    loop = marks()
    loop.enter("data")
    loop.leave("data")
    loop.enter("forward")
    loop.enter("forward")  # of a second model
    loop.enter("backward")
    loop.leave("backward")
    loop.enter("optimizer")
    loop.leave("optimizer")
    loop.end()
    assert marked == ["+data", "-data", "+forward", "-forward", "+backward", "-backward", "+optimizer", "-optimizer"]


def test_what_is_left_but_not_open_stays_as_it_is(marked: list[str]) -> None:
    loop = marks()
    loop.enter("forward")
    loop.leave("backward")
    assert marked == ["+forward"]
    loop.end()
    loop.end()
    assert marked == ["+forward", "-forward"]


def test_nothing_is_marked_while_off(marked: list[str]) -> None:
    loop = PhaseMarks()
    for name in ("data", "forward", "backward", "optimizer"):
        loop.enter(name)
        loop.leave(name)
    loop.mark("forward")
    loop.unmark()
    loop.end()
    assert marked == []


def test_what_is_open_when_it_is_switched_off_is_closed(marked: list[str]) -> None:
    loop = marks()
    loop.enter("forward")
    loop.on = False
    loop.enter("backward")
    loop.end()
    assert marked == ["+forward", "-forward"]


def test_an_optimizer_that_runs_the_passes_goes_on_after_them(marked: list[str]) -> None:
    loop = marks()
    loop.enter("optimizer")
    loop.enter("forward")
    loop.enter("backward")
    loop.leave("backward")
    loop.leave("optimizer")
    assert marked == [
        "+optimizer",
        "-optimizer",
        "+forward",
        "-forward",
        "+backward",
        "-backward",
        "+optimizer",
        "-optimizer",
    ]


def test_what_the_program_marks_goes_before_what_hooks_see(marked: list[str]) -> None:
    loop = marks()
    loop.mark("data")
    loop.enter("forward")  # a model that makes the data
    loop.leave("forward")
    loop.unmark()
    loop.enter("forward")
    loop.end()
    assert marked == ["+data", "-data", "+forward", "-forward"]


def test_marks_nest(marked: list[str]) -> None:
    loop = marks()
    loop.mark("forward")
    loop.mark("data")
    loop.unmark()
    loop.unmark()
    assert marked == ["+forward", "-forward", "+data", "-data", "+forward", "-forward"]


def test_a_mark_that_is_open_while_a_step_ends_is_taken_up_again(marked: list[str]) -> None:
    loop = marks()
    loop.mark("forward")
    loop.end()
    loop.enter("backward")
    loop.unmark()
    assert marked == ["+forward", "-forward", "+forward", "-forward"]


def test_marks_of_another_thread_are_not_of_the_loop() -> None:
    loop = marks()
    loop.enter("forward")
    answers: list[bool] = []
    other = threading.Thread(target=lambda: answers.append(loop.mark("data")))
    other.start()
    other.join()
    assert answers == [False]
    loop.end()


def test_the_loop_that_is_followed() -> None:
    loop = PhaseMarks()
    assert get_followed_marks() is None
    follow_marks(loop)
    try:
        assert get_followed_marks() is loop
    finally:
        follow_marks(None)
    assert get_followed_marks() is None
