"""Statistics of repeats, against values worked out by hand."""

import pytest

from perfkit.devices.ceilings.ceiling import CeilingLevel, Confidence
from perfkit.devices.ceilings.repeats import (
    KernelRepeats,
    Repeat,
    compute_quantile_rate,
    find_best_canary,
    summarize_repeats,
)


def repeat(rate: float, before: float = 100.0, after: float = 100.0) -> Repeat:
    return Repeat(rate=rate, windows=300, canary_before=before, canary_after=after)


def test_p99_of_300_windows_is_the_third_fastest() -> None:
    durations = [float(n) for n in range(300, 0, -1)]  # 300 s ... 1 s
    assert compute_quantile_rate(durations, 12.0, 0.99) == 12.0 / 3


def test_p99_of_few_windows_is_the_fastest() -> None:
    assert compute_quantile_rate([4.0, 2.0, 3.0], 8.0, 0.99) == 4.0


def test_median_is_the_upper_middle_duration() -> None:
    assert compute_quantile_rate([1.0, 2.0, 3.0], 6.0, 0.5) == 3.0
    assert compute_quantile_rate([1.0, 2.0, 3.0, 100.0], 6.0, 0.5) == 3.0


def test_best_of_repeats_with_the_spread_of_halves() -> None:
    summary = summarize_repeats(
        [repeat(90), repeat(100), repeat(97), repeat(98)], canary=100, level=CeilingLevel.MATRIX
    )
    assert summary.value == 100
    assert summary.spread == pytest.approx(0.02)  # halves: 100 and 98
    assert summary.confidence == Confidence.HIGH
    assert (summary.kept, summary.total) == (4, 4)


def test_odd_number_of_repeats_gives_the_later_half_one_more() -> None:
    assert summarize_repeats(
        [repeat(50), repeat(100), repeat(60)], canary=100, level=CeilingLevel.MATRIX
    ).spread == pytest.approx(0.5)


def test_halves_that_differ_by_more_than_five_percent_are_low_confidence() -> None:
    assert (
        summarize_repeats(
            [repeat(100), repeat(100), repeat(95), repeat(95)], canary=100, level=CeilingLevel.MATRIX
        ).confidence
        == Confidence.HIGH
    )
    assert (
        summarize_repeats(
            [repeat(100), repeat(100), repeat(94), repeat(94)], canary=100, level=CeilingLevel.MATRIX
        ).confidence
        == Confidence.LOW
    )


def test_repeats_with_a_slow_canary_on_either_side_are_dropped() -> None:
    repeats = [repeat(100), repeat(40, before=96.9), repeat(41, after=96.9), repeat(99, before=97.0), repeat(98)]
    summary = summarize_repeats(repeats, canary=100, level=CeilingLevel.MATRIX)
    assert (summary.kept, summary.total) == (3, 5)
    assert summary.spread == pytest.approx(0.01)  # halves of what is kept: 100 and max(99, 98)
    assert summary.confidence == Confidence.HIGH


def test_what_follows_the_clock_needs_three_undisturbed_repeats() -> None:
    slow = repeat(40, before=50)
    repeats = [repeat(100), repeat(99), slow, slow]
    matrix, dram = (
        summarize_repeats(repeats, canary=100, level=level) for level in (CeilingLevel.MATRIX, CeilingLevel.MEMORY)
    )
    assert (matrix.value, matrix.kept, matrix.confidence) == (100, 2, Confidence.LOW)
    assert (dram.value, dram.kept, dram.confidence) == (100, 2, Confidence.HIGH)
    assert (
        summarize_repeats([*repeats, repeat(98)], canary=100, level=CeilingLevel.MATRIX).confidence == Confidence.HIGH
    )


def test_all_repeats_count_when_none_is_undisturbed() -> None:
    summary = summarize_repeats([repeat(80, before=50), repeat(100, before=50)], canary=100, level=CeilingLevel.MATRIX)
    assert summary.value == 100
    assert summary.spread == pytest.approx(0.2)
    assert (summary.kept, summary.confidence) == (0, Confidence.LOW)


def test_dram_does_not_feel_what_slows_the_canary() -> None:
    summary = summarize_repeats([repeat(99, before=50), repeat(100, before=50)], canary=100, level=CeilingLevel.MEMORY)
    assert (summary.value, summary.kept, summary.confidence) == (100, 0, Confidence.HIGH)


def test_a_single_repeat_has_no_spread() -> None:
    summary = summarize_repeats([repeat(100)], canary=100, level=CeilingLevel.MATRIX)
    assert summary.spread is None
    assert summary.confidence == Confidence.LOW


def test_the_best_canary_is_looked_up_per_number_of_threads() -> None:
    def kernel(threads: int, *repeats: Repeat) -> KernelRepeats:
        return KernelRepeats(
            level=CeilingLevel.MATRIX, dtype="fp32", threads=threads, label="x", unit="FLOP/s", repeats=repeats
        )

    kernels = [kernel(1, repeat(1, 10, 12)), kernel(1, repeat(1, 11, 9)), kernel(2, repeat(1, 20, 24))]
    assert find_best_canary(kernels, 1) == 12
    assert find_best_canary(kernels, 2) == 24


def test_fewer_than_two_undisturbed_repeats_say_little_of_the_hardware() -> None:
    slow = repeat(40, before=50)
    told = {
        undisturbed: summarize_repeats(
            [repeat(100)] * undisturbed + [slow] * (7 - undisturbed), canary=100, level=CeilingLevel.MEMORY
        )
        for undisturbed in (0, 1, 2)
    }
    assert [told[count].disturbed for count in (0, 1, 2)] == [
        "0 of 7 repeats undisturbed",
        "1 of 7 repeats undisturbed",
        "",
    ]
