"""Which of a program's ranges stand in the way of a second profiler, by hand and in what torch records."""

import itertools
from collections.abc import Callable
from contextlib import ExitStack

import pytest
import torch
from torch.profiler import record_function

from perfkit.instruments.open_ranges import OpenRangeError, RangeSpan, find_open_ranges, list_spans
from perfkit.instruments.range_marks import mark_step

Body = Callable[[ExitStack, int], None]


def steps(*ends: int) -> list[RangeSpan]:
    """Steps that follow each other, from 0."""
    return [RangeSpan(f"perfkit::step#{number}", a, b) for number, (a, b) in enumerate(itertools.pairwise((0, *ends)))]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([*steps(10, 20), RangeSpan("load", 2, 8), RangeSpan("load", 12, 18)], ()),
        ([*steps(10, 20), RangeSpan("epoch", 4, 10)], ("epoch",)),  # cut off by the end of one step
        # Cut off by every step, it is opened in every step.
        ([*steps(10, 20), RangeSpan("iteration", 4, 10), RangeSpan("iteration", 14, 20)], ()),
        ([*steps(10, 20), RangeSpan("iteration 7", 4, 10), RangeSpan("iteration 8", 14, 20)], ()),
        # Open at the end of every step, and closed in the next.
        ([*steps(10, 20, 30), RangeSpan("it 1", 4, 12), RangeSpan("it 2", 14, 22), RangeSpan("it 3", 24, 30)], ()),
        ([*steps(10, 20, 30), RangeSpan("validation", 4, 12)], ()),  # it outlasted a step and was closed
        ([*steps(10), RangeSpan("iteration", 4, 10)], ("iteration",)),  # of a single step nothing can be told
        (
            [*steps(10, 20), RangeSpan("Optimizer.step#LBFGS.step", 4, 10)],
            (),
        ),  # an optimizer's own ends in the next step
        ([RangeSpan("epoch", 0, 10)], ()),
        ([], ()),
    ],
)
def test_ranges_that_last(spans: list[RangeSpan], expected: tuple[str, ...]) -> None:
    assert find_open_ranges(spans) == expected


def test_the_error_names_the_range_and_what_to_do() -> None:
    assert "'epoch'" in str(OpenRangeError(("epoch", "run")))
    assert "--trace 0" in str(OpenRangeError(("epoch",)))


def traced(body: Body, count: int) -> tuple[str, ...]:
    """What lasts in a trace of `count` steps; what `body` leaves open in one may be closed in a later one."""
    with ExitStack() as program:  # what the program leaves open is closed after the profiler's end, as it would be
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            for number in range(count):
                with mark_step(number):
                    body(program, number)
        results = profiler.profiler.kineto_results
        return find_open_ranges(list_spans(results.experimental_event_tree()))


def work() -> None:
    torch.ones(16) @ torch.ones(16)


@pytest.mark.parametrize("name", ["iteration", "iteration {}"])
@pytest.mark.parametrize("count", [2, 3])
def test_a_range_for_each_step_that_is_open_at_its_end(name: str, count: int) -> None:
    def body(program: ExitStack, number: int) -> None:
        work()
        program.close()  # the iteration that began in the step before
        program.enter_context(record_function(name.format(number)))
        work()

    assert traced(body, count) == ()


def test_a_range_for_an_epoch_that_begins_in_the_middle() -> None:
    def body(program: ExitStack, number: int) -> None:
        work()
        if number == 1:
            program.enter_context(record_function("epoch 4"))
        work()

    assert traced(body, 3) == ("epoch 4",)


def test_a_range_for_an_epoch_with_one_in_every_step_within() -> None:
    def body(program: ExitStack, number: int) -> None:
        if number == 0:
            program.enter_context(record_function("epoch"))
        with record_function("iteration"):
            work()

    assert traced(body, 2) == ("epoch",)


def test_the_end_of_one_epoch_and_the_beginning_of_the_next() -> None:
    epochs = ExitStack()

    def body(program: ExitStack, number: int) -> None:
        if number == 0:
            epochs.enter_context(record_function("epoch 1"))
        if number == 2:
            epochs.close()
            program.enter_context(record_function("epoch 2"))
        work()

    assert traced(body, 3) == ("epoch 2",)


@pytest.mark.parametrize("count", [1, 2])
def test_an_optimizer_whose_closure_runs_the_steps_boundary(count: int) -> None:
    def body(program: ExitStack, number: int) -> None:
        work()
        program.close()
        program.enter_context(record_function("Optimizer.step#LBFGS.step"))
        work()

    assert traced(body, count) == ()


def in_their_step(program: ExitStack, number: int) -> None:
    with record_function("load"), record_function("augment"):
        work()
    work()


def open_at_the_end(program: ExitStack, number: int) -> None:
    program.enter_context(record_function("iteration"))
    work()


@pytest.mark.parametrize(
    ("body", "count", "expected"),
    [
        (in_their_step, 2, ()),
        (open_at_the_end, 1, ("iteration",)),
        (lambda program, number: work(), 1, ()),
    ],
)
def test_other_programs(body: Body, count: int, expected: tuple[str, ...]) -> None:
    assert traced(body, count) == expected
