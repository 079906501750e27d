"""Sets of time intervals as arrays: union, difference, overlap. Integer nanoseconds: sums are exact."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]

# Shape (n, 2): start and end of disjoint intervals, ascending.
Intervals = NDArray[np.int64]

EMPTY: Intervals = np.empty((0, 2), np.int64)


def merge_intervals(starts: ArrayLike, ends: ArrayLike) -> Intervals:
    """The union of intervals given in any order, overlapping or not."""
    begin = np.asarray(starts, dtype=np.int64)
    end = np.asarray(ends, dtype=np.int64)
    keep = end > begin
    begin, end = begin[keep], end[keep]
    if begin.size == 0:
        return EMPTY
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], begin[1:] > end[:-1]))
    last = np.concatenate((first[1:], [True]))
    return np.column_stack((begin[first], end[last]))


def measure_length(intervals: Intervals) -> int:
    """The time covered."""
    return int((intervals[:, 1] - intervals[:, 0]).sum())


def join_intervals(first: Intervals, second: Intervals) -> Intervals:
    """The union of two sets."""
    both = np.concatenate((first, second))
    return merge_intervals(both[:, 0], both[:, 1])


def subtract_intervals(minuend: Intervals, subtrahend: Intervals) -> Intervals:
    """The parts of `minuend` outside `subtrahend`."""
    if minuend.size == 0 or subtrahend.size == 0:
        return minuend
    return _join_adjacent(exclude_intervals(minuend, subtrahend))


def exclude_intervals(intervals: Intervals, others: Intervals) -> Intervals:
    """Like `subtract_intervals`, keeping touching intervals apart."""
    if not len(others) or not len(intervals):
        return intervals
    begin = np.concatenate(([np.iinfo(np.int64).min], others[:, 1]))
    end = np.concatenate((others[:, 0], [np.iinfo(np.int64).max]))
    return find_overlaps(intervals, begin, end)[0]


def _join_adjacent(intervals: Intervals) -> Intervals:
    """Ascending disjoint intervals, those that touch each other as one."""
    if not len(intervals):
        return EMPTY
    apart = np.flatnonzero(intervals[1:, 0] > intervals[:-1, 1])
    if len(apart) + 1 == len(intervals):
        return intervals
    return np.column_stack((intervals[np.append(0, apart + 1), 0], intervals[np.append(apart, len(intervals) - 1), 1]))


def clip_intervals(intervals: Intervals, window: Intervals) -> Intervals:
    """The parts of `intervals` within `window`."""
    if not len(intervals) or not len(window):
        return EMPTY
    within = find_overlaps(intervals, window[:, 0], window[:, 1])[0]
    return intervals if measure_length(within) == measure_length(intervals) else _join_adjacent(within)


def sort_unique(times: Ints) -> Ints:
    """The distinct times in ascending order. Sorting is quicker than `np.unique`: most of them are in order already."""
    times = np.sort(times, kind="stable")
    different: Ints = times[np.concatenate(([True], times[1:] != times[:-1]))] if len(times) else times
    return different


def is_inside(times: Ints, intervals: Intervals) -> NDArray[np.bool_]:
    """True where a time lies in one of the intervals, which include their start but not their end."""
    if intervals.size == 0:
        return np.zeros(len(times), np.bool_)
    index = np.searchsorted(intervals[:, 0], times, side="right") - 1
    within: NDArray[np.bool_] = (index >= 0) & (times < intervals[np.maximum(index, 0), 1])
    return within


def measure_covered(starts: Ints, ends: Ints, intervals: Intervals) -> Ints:
    """The covered length of each span from `starts` to `ends`."""
    if intervals.size == 0:
        return np.zeros(len(starts), np.int64)
    return _measure_covered_until(ends, intervals) - _measure_covered_until(starts, intervals)


def _measure_covered_until(times: Ints, intervals: Intervals) -> Ints:
    lengths = intervals[:, 1] - intervals[:, 0]
    before = np.concatenate(([0], np.cumsum(lengths)))
    index = np.searchsorted(intervals[:, 0], times, side="right") - 1
    here = np.maximum(index, 0)
    partly = np.clip(times - intervals[here, 0], 0, lengths[here])
    result: Ints = np.where(index >= 0, before[here] + partly, 0)
    return result


def find_overlaps(intervals: Intervals, starts: Ints, ends: Ints) -> tuple[Intervals, Ints, Ints]:
    """The overlaps of `intervals` with some spans, with the rows of both.

    The spans are disjoint and ascending, as the intervals are.
    """
    first = np.searchsorted(intervals[:, 1], starts, side="right")
    count = np.maximum(np.searchsorted(intervals[:, 0], ends, side="left") - first, 0)
    span = np.repeat(np.arange(len(starts)), count)
    interval = np.arange(len(span)) - np.repeat(np.cumsum(count) - count, count) + first[span]
    begin = np.maximum(intervals[interval, 0], starts[span])
    end = np.minimum(intervals[interval, 1], ends[span])
    some = end > begin
    return np.column_stack((begin, end))[some], interval[some], span[some]
