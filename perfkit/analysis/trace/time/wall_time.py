"""Wall time of work on several threads or streams, as opposed to the sum of durations."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.grouping import RowGroups
from perfkit.trace.model import Ints

Floats = NDArray[np.float64]


def has_overlap(starts: Ints, ends: Ints) -> bool:
    """True if any work (in order of start) begins before other work has ended."""
    return bool((starts[1:] < np.maximum.accumulate(ends)[:-1]).any())


def measure_wall_ns(starts: Ints, ends: Ints) -> int:
    """The time with any of some work (in order of start) running."""
    if not len(starts):
        return 0
    until = np.maximum.accumulate(ends)
    return int(np.maximum(ends[1:] - np.maximum(starts[1:], until[:-1]), 0).sum()) + int(ends[0] - starts[0])


def measure_group_wall_ns(groups: RowGroups, starts: Ints, ends: Ints) -> Floats:
    """The same for each group of rows, in order of their start."""
    if not len(starts):
        return np.zeros(len(groups))
    order = np.argsort(groups.of, kind="stable")
    number = groups.of[order].astype(np.int64)
    # Shift each group to its own time range, so that none begins before the previous one has ended.
    first = int(starts.min())
    shift = number * (int(ends.max()) - first + 1) - first
    begin, end = starts[order] + shift, ends[order] + shift
    until = np.concatenate(([0], np.maximum.accumulate(end)[:-1]))
    own = np.maximum(end - np.maximum(begin, until), 0)
    return np.bincount(number, own, len(groups)).astype(np.float64)
