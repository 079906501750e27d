"""Finds outlier steps and drift in step times, without a clock.

Times are whole nanoseconds. Medians throughout: one step that stalls must not move what the others are compared with.
"""

from collections.abc import Sequence
from statistics import median, stdev
from typing import NamedTuple

from perfkit.attach.live.live_options import LiveOptions

# Fewer steps do not show their variation.
LEAST_STEPS = 50


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
    """Compares the medians of successive windows with those of the first windows.

    The reference level is at first the median of the first windows. A rise over enough windows in a row is reported
    once and becomes the level; the next report needs a further rise. When as many windows lie below it by half a rise,
    the level falls to them, but not below the reference.
    """

    def __init__(self, options: LiveOptions) -> None:
        self._options = options
        self._first: list[float] = []
        self._latest: list[float] = []
        self._reference = 0.0
        self._level = 0.0
        self._rise = 0.0

    def add(self, point: float) -> TimeRise | None:
        """The median of the next window."""
        if len(self._first) < self._options.reference:
            self._first.append(point)
            if len(self._first) == self._options.reference:
                self._level = self._reference = median(self._first)
                self._rise = max(self._options.drift, self._options.noise * stdev(self._first) / self._reference)
            return None
        self._latest = [*self._latest, point][-self._options.sustained :]
        if len(self._latest) < self._options.sustained:
            return None
        now = median(self._latest)
        if min(self._latest) > self._level * (1 + self._rise):
            rise = TimeRise(self._level, now)
            self._set_level(now)
            return rise
        if max(self._latest) < self._level * (1 - self._rise / 2):
            self._set_level(max(now, self._reference))
        return None

    def _set_level(self, level: float) -> None:
        self._level = level
        self._latest = []
