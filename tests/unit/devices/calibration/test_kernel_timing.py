"""The measuring loop under a fake clock: kernels advance it by exact amounts."""

from collections.abc import Callable

import pytest

from perfkit.devices.calibration.kernel_timing import (
    CalibrationEffort,
    CalibrationKernel,
    TimingWindow,
    fill_window,
    format_reason,
    make_wall_timer,
    run_kernels,
    time_windows,
)
from perfkit.devices.ceilings.ceiling import CeilingLevel


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, seconds: float) -> Callable[[], None]:
        def call() -> None:
            self.now += seconds

        return call


def kernel(label: str, prepare: Callable[[], TimingWindow], threads: int = 1) -> CalibrationKernel:
    return CalibrationKernel(
        level=CeilingLevel.MATRIX, dtype="fp32", threads=threads, label=label, unit="FLOP/s", prepare=prepare
    )


def test_windows_stop_at_their_number() -> None:
    clock = Clock()
    found = time_windows(
        TimingWindow(clock.takes(0.001), 1.0), make_wall_timer(clock), windows=7, budget_s=1.0, min_windows=2
    )
    assert found == pytest.approx([0.001] * 7)


def test_windows_stop_when_the_budget_is_spent_but_not_below_the_minimum() -> None:
    clock = Clock()
    window = TimingWindow(clock.takes(0.4), 1.0)
    assert len(time_windows(window, make_wall_timer(clock), windows=100, budget_s=1.0, min_windows=2)) == 3
    assert len(time_windows(window, make_wall_timer(clock), windows=100, budget_s=1.0, min_windows=5)) == 5


def test_rates_are_amount_over_the_quantile_of_durations() -> None:
    clock = Clock()
    durations = iter([9.0, *[0.002] * 9, 0.001] * 2)

    def call() -> None:
        clock.now += next(durations)

    found = run_kernels(
        [kernel("k", lambda: TimingWindow(call, 10.0))],
        {1: kernel("canary", lambda: TimingWindow(clock.takes(0.01), 5.0))},
        CalibrationEffort(repeats=2, windows=10, budget_s=1.0, quantile=0.5),
        make_wall_timer(clock),
        lambda line: None,
    )
    (repeats,) = (kernel.repeats for kernel in found.kernels)
    assert [repeat.rate for repeat in repeats] == pytest.approx([5000.0, 5000.0])  # the first, 9 s call is warm-up
    assert [repeat.windows for repeat in repeats] == [10, 10]
    assert repeats[0].canary_before == pytest.approx(500.0)


def test_kernels_are_interleaved_between_canaries_with_fresh_buffers() -> None:
    clock = Clock()
    order: list[str] = []

    def prepare(name: str) -> Callable[[], TimingWindow]:
        def fresh() -> TimingWindow:
            order.append(name)
            return TimingWindow(clock.takes(0.01), 1.0)

        return fresh

    run_kernels(
        [kernel("a", prepare("a")), kernel("b", prepare("b")), kernel("c", prepare("c"), threads=2)],
        {1: kernel("canary", prepare("|1")), 2: kernel("canary", prepare("|2"), threads=2)},
        CalibrationEffort(repeats=2, windows=3, budget_s=1.0, quantile=0.99),
        make_wall_timer(clock),
        lambda line: None,
    )
    once = ["|1", "a", "|1", "b", "|1", "|2", "c", "|2"]
    assert order == once * 2


def test_a_slow_phase_shows_in_the_canaries_around_it() -> None:
    clock = Clock()
    speed = iter([1.0, 1.0, 0.5, 0.5])

    def canary() -> TimingWindow:
        return TimingWindow(clock.takes(0.01 / next(speed)), 1.0)

    found = run_kernels(
        [kernel("k", lambda: TimingWindow(clock.takes(0.01), 1.0))],
        {1: kernel("canary", canary)},
        CalibrationEffort(repeats=2, windows=3, budget_s=1.0, quantile=0.99),
        make_wall_timer(clock),
        lambda line: None,
    )
    first, second = found.kernels[0].repeats
    assert first.canary == pytest.approx(100.0)
    assert second.canary == pytest.approx(50.0)


def test_a_kernel_that_raises_is_left_out_whole_and_not_tried_again() -> None:
    clock = Clock()
    tries: list[str] = []

    def second_time() -> TimingWindow:
        tries.append("b")
        if len(tries) == 2:
            raise RuntimeError("out of memory\nadvice")
        return TimingWindow(clock.takes(0.01), 1.0)

    given_back: list[None] = []
    found = run_kernels(
        [kernel("a", lambda: TimingWindow(clock.takes(0.01), 1.0)), kernel("b", second_time)],
        {1: kernel("canary", lambda: TimingWindow(clock.takes(0.01), 1.0))},
        CalibrationEffort(repeats=4, windows=3, budget_s=1.0, quantile=0.99),
        make_wall_timer(clock),
        lambda line: None,
        lambda: given_back.append(None),
    )
    assert [(each.label, len(each.repeats)) for each in found.kernels] == [("a", 4)]
    assert [note.id for note in found.failures] == ["ceilings.kernel_failed"]
    assert found.failures[0].text.startswith("b ")
    assert tries == ["b", "b"]
    assert len(given_back) == 4 + 4 + 2 + 2 + 4  # after a, its canaries, b, its canaries, and each round's first canary


def test_an_error_of_the_canary_ends_the_measuring() -> None:
    clock = Clock()

    def broken() -> TimingWindow:
        raise RuntimeError("an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        run_kernels(
            [kernel("a", lambda: TimingWindow(clock.takes(0.01), 1.0))],
            {1: kernel("canary", broken)},
            CalibrationEffort(repeats=1, windows=3, budget_s=1.0, quantile=0.99),
            make_wall_timer(clock),
            lambda line: None,
        )


def test_the_reason_is_the_first_line_of_an_error() -> None:
    assert format_reason(RuntimeError("CUDA error\nCUDA kernel")) == "CUDA error"
    assert format_reason(NotImplementedError()) == "NotImplementedError"


def test_progress_names_every_measurement_with_its_place() -> None:
    clock = Clock()
    lines: list[str] = []
    run_kernels(
        [
            kernel("a", lambda: TimingWindow(clock.takes(0.1), 1.0)),
            kernel("b", lambda: TimingWindow(clock.takes(0.1), 1.0)),
        ],
        {1: kernel("canary", lambda: TimingWindow(clock.takes(0.1), 1.0))},
        CalibrationEffort(repeats=2, windows=1, budget_s=1.0, quantile=0.99),
        make_wall_timer(clock),
        lines.append,
    )
    assert lines == ["[1/4] a", "[2/4] b", "[3/4] a", "[4/4] b"]


def test_short_calls_are_repeated_to_fill_a_window() -> None:
    clock = Clock()
    window = fill_window(clock.takes(0.11e-3), 12.0, make_wall_timer(clock))
    assert window.amount == 36.0  # three calls of 0.11 ms fill 0.3 ms
    before = clock()
    window.call()
    assert clock() - before == pytest.approx(0.33e-3)


def test_a_long_call_is_a_window_by_itself() -> None:
    clock = Clock()
    assert fill_window(clock.takes(0.4e-3), 12.0, make_wall_timer(clock)).amount == 12.0
