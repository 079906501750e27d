"""Sets of time intervals as arrays: union, difference, overlap. All times in seconds."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Shape (n, 2): start and end of disjoint intervals, ascending.
Intervals = NDArray[np.float64]

EMPTY: Intervals = np.empty((0, 2))


def union(starts: ArrayLike, ends: ArrayLike) -> Intervals:
    """The union of intervals given in any order, overlapping or not."""
    begin = np.asarray(starts, dtype=np.float64)
    end = np.asarray(ends, dtype=np.float64)
    keep = end > begin
    begin, end = begin[keep], end[keep]
    if begin.size == 0:
        return EMPTY
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], begin[1:] > end[:-1]))
    last = np.concatenate((first[1:], [True]))
    return np.column_stack((begin[first], end[last]))


def length(intervals: Intervals) -> float:
    """The time covered."""
    return float((intervals[:, 1] - intervals[:, 0]).sum())


def joined(first: Intervals, second: Intervals) -> Intervals:
    """The union of two sets."""
    both = np.concatenate((first, second))
    return union(both[:, 0], both[:, 1])


def difference(minuend: Intervals, subtrahend: Intervals) -> Intervals:
    """What of `minuend` is not in `subtrahend`."""
    if minuend.size == 0 or subtrahend.size == 0:
        return minuend
    # Between two neighbouring edges nothing changes, so each such piece is in or out as a whole.
    edges = np.unique(np.concatenate((minuend.ravel(), subtrahend.ravel())))
    middle = (edges[:-1] + edges[1:]) / 2
    keep = _inside(middle, minuend) & ~_inside(middle, subtrahend)
    return union(edges[:-1][keep], edges[1:][keep])


def clipped(intervals: Intervals, window: Intervals) -> Intervals:
    """What of `intervals` lies within `window`."""
    return difference(intervals, difference(intervals, window)) if intervals.size else intervals


def _inside(points: NDArray[np.float64], intervals: Intervals) -> NDArray[np.bool_]:
    index = np.searchsorted(intervals[:, 0], points, side="right") - 1
    inside: NDArray[np.bool_] = (index >= 0) & (points < intervals[np.maximum(index, 0), 1])
    return inside
