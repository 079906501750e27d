"""The parts of wall time, with a clock that the tests move."""

import pytest

from perfkit.attach.wall_time.ledger import Part, WallTimeLedger
from perfkit.core.record.attached_loop import WallTimeParts


class Clock:
    """Nanoseconds that pass only when asked to."""

    def __init__(self) -> None:
        self.ns = 5_000_000_000

    def __call__(self) -> int:
        return self.ns

    def move(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> WallTimeLedger:
    return WallTimeLedger(clock)


def train(ledger: WallTimeLedger, clock: Clock, *steps_s: float) -> None:
    for step_s in steps_s:
        clock.move(step_s)
        ledger.end_step(0)


def add_up(parts: WallTimeParts) -> float:
    return (
        parts.startup_s
        + parts.training_s
        + parts.data_s
        + parts.evaluation_s
        + parts.checkpoint_s
        + parts.compilation_s
        + parts.recording_s
        + parts.other_s
    )


def test_each_moment_is_in_the_innermost_part(ledger: WallTimeLedger, clock: Clock) -> None:
    clock.move(2)
    with ledger.within(Part.COMPILATION):
        clock.move(3)
    train(ledger, clock, 1, 0.5, 0.5)
    with ledger.within(Part.DATA):
        clock.move(0.25)
        with ledger.within(Part.RECORDING):
            clock.move(4)
        clock.move(0.25)
    train(ledger, clock, 0.5)
    with ledger.within(Part.CHECKPOINT):
        clock.move(0.75)
    parts = ledger.summarize()
    assert (parts.startup_s, parts.compilation_s, parts.training_s) == (3, 3, 1.5)
    assert (parts.data_s, parts.recording_s, parts.checkpoint_s, parts.other_s) == (0.5, 4, 0.75, 0)
    assert (parts.updates, parts.compilations, parts.checkpoints) == (4, 1, 1)
    assert add_up(parts) == pytest.approx(parts.wall_s) == pytest.approx(12.75)
    assert parts.share == pytest.approx(1.5 / 8.75)


def test_waits_of_an_evaluation_are_part_of_it_and_its_compilations_are_not(
    ledger: WallTimeLedger, clock: Clock
) -> None:
    train(ledger, clock, 1, 1)
    ledger.begin_evaluation()
    clock.move(1)
    with ledger.within(Part.DATA):
        clock.move(2)
    with ledger.within(Part.COMPILATION):
        clock.move(4)
    ledger.end_evaluation()
    train(ledger, clock, 1)
    parts = ledger.summarize()
    assert (parts.evaluation_s, parts.compilation_s, parts.data_s) == (3, 4, 0)
    assert (parts.evaluations, parts.training_s) == (1, 2)


def test_what_steps_take_beyond_twice_the_median_is_no_training_nor_what_follows_them(
    ledger: WallTimeLedger, clock: Clock
) -> None:
    train(ledger, clock, 9, 1, 1, 1.9, 5, 1)
    clock.move(7)
    parts = ledger.summarize()
    assert (parts.startup_s, parts.training_s) == (9, 1 + 1 + 1.9 + 1 + 1)
    assert parts.other_s == (5 - 1) + 7


def test_a_recording_is_what_it_slows_steps_down_by(ledger: WallTimeLedger, clock: Clock) -> None:
    train(ledger, clock, 1, 1, 1, 1)
    ledger.instrumented = True
    train(ledger, clock, 4, 1)
    ledger.instrumented = False
    parts = ledger.summarize()
    assert (parts.recording_s, parts.training_s, parts.other_s) == (3, 5, 0)


def test_optimizers_that_take_turns_have_steps_of_their_own(ledger: WallTimeLedger, clock: Clock) -> None:
    train(ledger, clock, 1)
    for _ in range(4):
        clock.move(1)
        ledger.end_step("critic")
        clock.move(6)
        ledger.end_step("generator")
    parts = ledger.summarize()
    assert (parts.training_s, parts.other_s) == (28, 0)


def test_an_update_in_evaluation_mode_is_training(ledger: WallTimeLedger, clock: Clock) -> None:
    train(ledger, clock, 1, 2)
    ledger.begin_evaluation()
    clock.move(2)
    ledger.end_step(0)
    parts = ledger.summarize()
    assert (parts.evaluation_s, parts.evaluations, parts.training_s) == (0, 0, 4)


def test_nothing_is_evaluated_before_the_first_step_nor_added_after_the_end(
    ledger: WallTimeLedger, clock: Clock
) -> None:
    ledger.begin_evaluation()
    clock.move(1)
    ledger.close()
    clock.move(5)
    parts = ledger.summarize()
    assert (parts.wall_s, parts.startup_s, parts.evaluation_s) == (1, 1, 0)


def test_without_an_optimizer_the_time_after_the_last_seen_step_is_training(
    ledger: WallTimeLedger, clock: Clock
) -> None:
    for _ in range(3):
        clock.move(1)
        ledger.end_step("steps")
    clock.move(10)
    assert ledger.summarize().training_s == 12


def test_a_run_without_time_has_no_goodput(ledger: WallTimeLedger) -> None:
    assert ledger.summarize().share is None
