"""Sets of time intervals as arrays: union, difference, overlap. Integer nanoseconds: sums are exact."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]

# Shape (n, 2): start and end of disjoint intervals, ascending.
Intervals = NDArray[np.int64]

EMPTY: Intervals = np.empty((0, 2), np.int64)


def union(starts: ArrayLike, ends: ArrayLike) -> Intervals:
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


def length(intervals: Intervals) -> int:
    """The time covered."""
    return int((intervals[:, 1] - intervals[:, 0]).sum())


def joined(first: Intervals, second: Intervals) -> Intervals:
    """The union of two sets."""
    both = np.concatenate((first, second))
    return union(both[:, 0], both[:, 1])


def difference(minuend: Intervals, subtrahend: Intervals) -> Intervals:
    """What of `minuend` is not in `subtrahend`."""
    if minuend.size == 0 or subtrahend.size == 0:
        return minuend
    # Between two neighbouring edges nothing changes, so each such piece is in or out as a whole.
    edges = ascending(np.concatenate((minuend.ravel(), subtrahend.ravel())))
    keep = inside(edges[:-1], minuend) & ~inside(edges[:-1], subtrahend)
    return union(edges[:-1][keep], edges[1:][keep])


def clipped(intervals: Intervals, window: Intervals) -> Intervals:
    """What of `intervals` lies within `window`."""
    return difference(intervals, difference(intervals, window)) if intervals.size else intervals


def ascending(times: Ints) -> Ints:
    """The distinct times in ascending order. Sorting is quicker than `np.unique`: most of them are in order already."""
    times = np.sort(times, kind="stable")
    different: Ints = times[np.concatenate(([True], times[1:] != times[:-1]))] if len(times) else times
    return different


def inside(times: Ints, intervals: Intervals) -> NDArray[np.bool_]:
    """Whether each time lies in one of the intervals; an interval contains its start and not its end."""
    if intervals.size == 0:
        return np.zeros(len(times), np.bool_)
    index = np.searchsorted(intervals[:, 0], times, side="right") - 1
    within: NDArray[np.bool_] = (index >= 0) & (times < intervals[np.maximum(index, 0), 1])
    return within


def covered(starts: Ints, ends: Ints, intervals: Intervals) -> Ints:
    """How much of each span from `starts` to `ends` the intervals cover."""
    if intervals.size == 0:
        return np.zeros(len(starts), np.int64)
    return _covered_until(ends, intervals) - _covered_until(starts, intervals)


def _covered_until(times: Ints, intervals: Intervals) -> Ints:
    lengths = intervals[:, 1] - intervals[:, 0]
    before = np.concatenate(([0], np.cumsum(lengths)))
    index = np.searchsorted(intervals[:, 0], times, side="right") - 1
    here = np.maximum(index, 0)
    partly = np.clip(times - intervals[here, 0], 0, lengths[here])
    result: Ints = np.where(index >= 0, before[here] + partly, 0)
    return result
