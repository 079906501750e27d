"""Outliers and drift, on exact series and on noise as it was measured on a shared machine."""

from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from scipy.signal import lfilter

from perfkit.attach.live.options import LiveOptions
from perfkit.attach.live.window import Rise, Trend, Usual, usual

OPTIONS = LiveOptions()
QUICK = LiveOptions(reference=3, sustained=2)


def noisy(steps: int, seed: int, spread: float = 0.15, correlation: float = 0.47) -> np.ndarray:
    """Step times in nanoseconds around 20 ms that vary like those of a busy machine: each depends on the one before."""
    shocks = np.random.default_rng(seed).standard_normal(steps) * np.sqrt(1 - correlation**2)
    return (2e7 * np.exp(spread * lfilter([1], [1, -correlation], shocks))).astype(np.int64)


def rises(times: np.ndarray, options: LiveOptions = OPTIONS) -> list[int]:
    """The steps at which a drift is told."""
    trend = Trend(options)
    windows = times[: len(times) // options.window * options.window].reshape(-1, options.window).tolist()
    return [(number + 1) * options.window for number, window in enumerate(windows) if trend.add(median(window))]


def told(points: list[float]) -> list[Rise | None]:
    trend = Trend(QUICK)
    return [trend.add(point) for point in points]


def test_too_few_steps_tell_nothing() -> None:
    assert usual([100] * 49, OPTIONS) is None


def test_regular_steps_are_judged_by_the_factor() -> None:
    assert usual([100] * 50, OPTIONS) == Usual(100, 150)


def test_varying_steps_are_judged_by_their_deviation() -> None:
    # the median is 100, the median deviation 20
    assert usual([80, 120, 100, 80, 120] * 10, OPTIONS) == Usual(100, 300)


def test_one_stall_does_not_move_the_limit() -> None:
    assert usual([100] * 199 + [10**9], OPTIONS) == Usual(100, 150)


def test_outliers_are_rare_in_noise() -> None:
    times = noisy(100_000, 1)
    blocks = times.reshape(-1, OPTIONS.recent)
    found = 0
    for before, block in pairwise(blocks):
        limit = usual(before.tolist(), OPTIONS)
        assert limit is not None
        found += int((block > limit.limit).sum())
    assert found <= 5


def test_a_rise_is_told_once_when_it_has_lasted() -> None:
    assert told([100, 100, 100, 100, 120, 120, 120, 120]) == [*[None] * 5, Rise(100, 120), None, None]


def test_a_rise_below_the_threshold_is_none() -> None:
    assert told([100, 100, 100, *[109] * 20]) == [None] * 23


def test_a_single_slow_window_is_none() -> None:
    assert told([100, 100, 100, *[100, 200] * 10]) == [None] * 23


def test_a_further_rise_is_told_from_the_level_reached() -> None:
    found = told([100, 100, 100, 120, 120, 125, 125, 140, 140])
    assert [rise for rise in found if rise] == [Rise(100, 120), Rise(120, 140)]


def test_after_recovery_a_rise_is_told_again_from_the_reference() -> None:
    found = told([100, 100, 100, 120, 120, 90, 90, 115, 115])
    assert [rise for rise in found if rise] == [Rise(100, 120), Rise(100, 115)]


def test_a_partial_recovery_lowers_the_level() -> None:
    found = told([100, 100, 100, 200, 200, 130, 130, 180, 180])
    assert [rise for rise in found if rise] == [Rise(100, 200), Rise(130, 180)]


def test_the_level_around_a_rise_is_left_alone() -> None:
    """Hysteresis: windows that swing between just above and just below the threshold tell one rise."""
    found = told([100, 100, 100, *[111, 111, 109, 109] * 10])
    assert [rise for rise in found if rise] == [Rise(100, 111)]


def test_a_reference_that_varies_raises_the_threshold() -> None:
    assert told([80, 100, 120, *[135] * 4]) == [None] * 7  # two standard deviations are 40 %
    assert told([80, 100, 120, 141, 141])[-1] == Rise(100, 141)


@pytest.mark.parametrize(("spread", "most"), [(0.15, 0), (0.4, 1)])
def test_noise_alone_raises_hardly_a_drift(spread: float, most: int) -> None:
    assert sum(len(rises(noisy(100_000, seed, spread))) for seed in range(3)) <= most


def test_a_slow_down_of_15_percent_is_found() -> None:
    found = 0
    for seed in range(20):
        times = noisy(2510, seed)
        times[510:] = times[510:] * 1.15
        found += len(rises(times[10:])) == 1
    assert found >= 18
