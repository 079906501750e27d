"""Finds outlier steps and drift in step times, without a clock.

Times are whole nanoseconds. Medians throughout: one step that stalls must not move what the others are compared with.
"""

import math
from collections.abc import Sequence
from statistics import median, pvariance, stdev
from typing import NamedTuple

from perfkit.attach.live.live_options import LiveOptions

# Fewer steps do not show their variation.
LEAST_STEPS = 50
# Steps from before the watch whose median is a point.
_LEAST_FIRST_STEPS = 20
# Windows below a reference that make a better one, in multiples of those that make a rise.
_BEST = 2
# A rise among the first points must be this many times the threshold: its noise is of few points.
_EARLY = 2.0


class UsualTime(NamedTuple):
    """The median of recent steps and the outlier threshold, both in nanoseconds."""

    median: float
    limit: float


def compute_usual(times: Sequence[int], options: LiveOptions) -> UsualTime | None:
    """The usual time of these steps; None for fewer than `LEAST_STEPS`.

    The limit is a factor, so that jitter of very regular steps is none, and a number of median absolute deviations, so
    that steps which vary anyway are not: 10 of them are 6.7 standard deviations of normal noise.
    """
    if len(times) < LEAST_STEPS:
        return None
    middle = median(times)
    deviation = median([abs(time - middle) for time in times])
    return UsualTime(middle, max(options.outlier_factor * middle, middle + options.outlier_mads * deviation))


class TimeRise(NamedTuple):
    """Step times rose from the level `before` to the level `now`, in nanoseconds."""

    before: float
    now: float


class StepTrend:
    """Compares the medians of successive windows with the best level that steps have kept up.

    The reference level is at first the median of the first windows. A rise within them of twice the threshold is
    reported, too, and what came before it is the reference. A rise over enough windows in a row is reported once and
    becomes the level; the next report needs a further rise. When as many windows lie below it by half a rise, the level
    falls to them, but not below the reference. When twice as many lie below the reference by a whole rise, it was slow:
    they become the reference.
    """

    def __init__(self, options: LiveOptions, first_steps: Sequence[float] = ()) -> None:
        """`first_steps` are steps from before the first window, in nanoseconds, whose median is a point, too."""
        self._options = options
        self._first: list[float] = []
        self._points: list[float] = []
        self._reference = 0.0  # as long as there is none
        self._level = 0.0
        self._rise = 0.0
        if len(first_steps) >= _LEAST_FIRST_STEPS:
            self._first.append(median(first_steps))

    def add(self, point: float) -> TimeRise | None:
        """The median of the next window."""
        if not self._reference:
            self._first.append(point)
            return self._build_reference()
        count = self._options.sustained
        self._points = [*self._points, point][-_BEST * count :]
        latest = self._points[-count:]
        if len(latest) < count:
            return None
        now = median(latest)
        if min(latest) > self._level * (1 + self._rise):
            rise = TimeRise(self._level, now)
            self._set_level(now)
            return rise
        if self._level > self._reference and max(latest) < self._level * (1 - self._rise / 2):
            self._set_level(max(now, self._reference))
        elif len(self._points) == _BEST * count and max(self._points) < self._reference * (1 - self._rise):
            self._reference = median(self._points)
            self._set_level(self._reference)
        return None

    def _build_reference(self) -> TimeRise | None:
        """Set the reference where there are enough points, or before and after a rise among them."""
        options, count = self._options, self._options.sustained
        before, latest = self._first[:-count], self._first[-count:]
        if before:
            usual, now = median(before), median(latest)
            rise = self._compute_rise(usual, _compute_pooled_deviation(before, latest))
            if min(latest) > usual * (1 + _EARLY * rise):
                self._reference, self._rise = usual, rise
                self._set_level(now)
                return TimeRise(usual, now)
        if len(self._first) == options.reference + count - 1:  # a rise within the reference would have been seen
            first = self._first[: options.reference]
            self._level = self._reference = median(first)
            self._rise = self._compute_rise(self._reference, stdev(first))
            self._points = self._first[options.reference :]
        return None

    def _compute_rise(self, usual: float, deviation: float) -> float:
        return max(self._options.drift, self._options.noise * deviation / usual)

    def _set_level(self, level: float) -> None:
        self._level = level
        self._points = []


def _compute_pooled_deviation(*groups: Sequence[float]) -> float:
    """The standard deviation within groups, each around its own mean."""
    squares = sum(len(group) * pvariance(group) for group in groups)
    return math.sqrt(squares / max(1, sum(len(group) - 1 for group in groups)))
