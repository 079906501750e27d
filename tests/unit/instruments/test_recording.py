"""Driving instruments that yield once for every step."""

import pytest

from perfkit.instruments.recording import Recording, drive_recording


def watching(count: int, events: list[str]) -> Recording[str]:
    """Wants `count` steps, and writes down what happens to it."""
    events.append("on")
    try:
        for _ in range(count):
            yield
            events.append("seen")
    finally:
        events.append("off")
    return "found"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_steps_as_it_wants_and_its_result(count: int) -> None:
    events: list[str] = []
    found = drive_recording(watching(count, events), lambda index: events.append(str(index)), 5)
    assert found == "found"
    assert events == ["on", *(each for index in range(5, 5 + count) for each in (str(index), "seen")), "off"]


@pytest.mark.parametrize("error", [ValueError("on purpose"), KeyboardInterrupt()])
def test_a_step_that_raises_closes_it_first(error: BaseException) -> None:
    events: list[str] = []

    def step(index: int) -> None:
        if index == 6:
            raise error

    with pytest.raises(type(error)) as raised:
        drive_recording(watching(3, events), step, 5)
    assert raised.value is error
    assert events == ["on", "seen", "off"]


def test_what_it_raises_itself_is_raised_on() -> None:
    def failing() -> Recording[None]:
        yield
        raise ValueError("on purpose")

    steps: list[int] = []
    with pytest.raises(ValueError, match="on purpose"):
        drive_recording(failing(), steps.append, 0)
    assert steps == [0]
