"""Ends ranges that were open when the recording ended, whose writer gave them much later ends."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import Category

_PROFILERS = "trace"  # the category of the profiler's own span, from its start to its stop
_OPEN = (Category.RANGE, Category.PYTHON, Category.GPU_RANGE)
# A range may end within the call that stops the profiler.
_LATER_NS = 1_000_000


def end_unfinished_ranges(rows: dict[str, NDArray[Any]], cats: list[str], category: NDArray[np.int8]) -> int:
    """End open ranges with the recording: with the profiler's span and all work. Returns how many were longer.

    A trace without such a span does not tell when its recording ended.
    """
    spans = np.asarray([cat.lower() == _PROFILERS for cat in cats] or [False])[rows["cat"]]
    ranges = np.isin(category, _OPEN) & ~spans
    if not spans.any() or not ranges.any():
        return 0
    end = rows["start_ns"] + rows["duration"]
    until = int(end[~ranges].max())
    late = np.flatnonzero(ranges & (end > until + _LATER_NS))
    if len(late):
        rows["duration"] = np.array(rows["duration"])
        rows["duration"][late] = np.maximum(until - rows["start_ns"][late], 0)
    return len(late)
