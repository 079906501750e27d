"""Outliers and drift, on exact series and on noise as it was measured on a shared machine."""

from itertools import accumulate, pairwise
from statistics import median

import numpy as np
import pytest

from perfkit.attach.live.live_options import LiveOptions
from perfkit.attach.live.step_trend import StepTrend, TimeRise, UsualTime, compute_usual

OPTIONS = LiveOptions()
QUICK = LiveOptions(reference=3, sustained=2)


def noisy(steps: int, seed: int, spread: float = 0.15, correlation: float = 0.47) -> np.ndarray:
    """Step times in nanoseconds around 20 ms that vary like those of a busy machine: each depends on the one before."""
    shocks = np.random.default_rng(seed).standard_normal(steps) * np.sqrt(1 - correlation**2)
    levels = list(accumulate(shocks, lambda level, shock: correlation * level + shock))
    return (2e7 * np.exp(spread * np.asarray(levels))).astype(np.int64)


def rises(times: np.ndarray, options: LiveOptions = OPTIONS) -> list[int]:
    """The steps at which a drift is told."""
    trend = StepTrend(options)
    windows = times[: len(times) // options.window * options.window].reshape(-1, options.window).tolist()
    return [(number + 1) * options.window for number, window in enumerate(windows) if trend.add(median(window))]


def told(points: list[float]) -> list[TimeRise | None]:
    trend = StepTrend(QUICK)
    return [trend.add(point) for point in points]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([100] * 49, None),  # too few
        ([100] * 50, UsualTime(100, 150)),  # regular ones are judged by the factor
        ([80, 120, 100, 80, 120] * 10, UsualTime(100, 300)),  # varying ones by their median deviation, of 20
        ([100] * 199 + [10**9], UsualTime(100, 150)),  # one stall does not move the limit
    ],
)
def test_what_is_usual(steps: list[int], expected: UsualTime | None) -> None:
    assert compute_usual(steps, OPTIONS) == expected


def test_outliers_are_rare_in_noise() -> None:
    times = noisy(100_000, 1)
    blocks = times.reshape(-1, OPTIONS.recent)
    found = 0
    for before, block in pairwise(blocks):
        limit = compute_usual(before.tolist(), OPTIONS)
        found += int((block > limit.limit).sum())
    assert found <= 5


def test_a_rise_is_told_once_when_it_has_lasted() -> None:
    assert told([100, 100, 100, 100, 120, 120, 120, 120]) == [*[None] * 5, TimeRise(100, 120), None, None]


@pytest.mark.parametrize(
    ("points", "rises"),
    [
        ([109] * 20, []),  # below the threshold
        ([100, 200] * 10, []),  # single slow windows
        (
            [120, 120, 125, 125, 140, 140],
            [TimeRise(100, 120), TimeRise(120, 140)],
        ),  # a further one, from the level reached
        ([120, 120, 90, 90, 115, 115], [TimeRise(100, 120), TimeRise(100, 115)]),  # after recovery, from the reference
        (
            [200, 200, 130, 130, 180, 180],
            [TimeRise(100, 200), TimeRise(130, 180)],
        ),  # a partial recovery lowers the level
        ([111, 111, 109, 109] * 10, [TimeRise(100, 111)]),  # swinging around the threshold is one rise
    ],
)
def test_rises_above_a_reference_of_100(points: list[float], rises: list[TimeRise]) -> None:
    assert [rise for rise in told([100, 100, 100, *points]) if rise] == rises


def test_a_reference_that_varies_raises_the_threshold() -> None:
    assert told([80, 100, 120, *[135] * 4]) == [None] * 7  # two standard deviations are 40 %
    assert told([80, 100, 120, 141, 141])[-1] == TimeRise(100, 141)


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


@pytest.mark.parametrize("at", [60, 300, 460])
def test_a_slow_down_before_the_reference_is_complete_is_found(at: int) -> None:
    for seed in range(10):
        times = noisy(1000, seed, spread=0.05)
        first, times = times[:20], times[20:].copy()
        times[at:] = times[at:] * 1.5
        trend = StepTrend(OPTIONS, first.tolist())
        windows = times[:900].reshape(-1, OPTIONS.window).tolist()
        found = [(number + 1) * OPTIONS.window for number, window in enumerate(windows) if trend.add(median(window))]
        assert len(found) == 1
        assert at < found[0] <= at + (OPTIONS.sustained + 1) * OPTIONS.window


def test_a_reference_that_was_slow_gives_way_to_what_is_faster() -> None:
    points = [150, 150, 150, *[100] * 4, *[118] * 2]
    assert [rise for rise in told(points) if rise] == [TimeRise(100, 118)]
    assert not any(told([150, 150, 150, *[100] * 3, *[118] * 2]))  # not long enough
    assert not any(told([104, 104, 104, *[100] * 4, *[112] * 2]))  # not by a whole rise: it stays


def test_few_first_steps_are_no_point() -> None:
    slow = [100.0] * 19
    trend = StepTrend(QUICK, slow)
    assert [trend.add(point) for point in (200, 200, 200)] == [None] * 3
    trend = StepTrend(QUICK, [*slow, 100.0])
    assert trend.add(200) is None
    assert trend.add(210) == TimeRise(100, 205)


def test_noise_alone_raises_hardly_a_drift_among_the_first_points() -> None:
    found = 0
    for seed in range(300):
        times = noisy(620, seed)
        trend = StepTrend(OPTIONS, times[:20].tolist())
        found += sum(trend.add(median(window)) is not None for window in times[20:620].reshape(-1, 50).tolist())
    assert found <= 3
