"""Sums the profiler's own cost during the recording: buffer requests, flushes, instrumentation."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_CAT = "overhead"
_LEAST_SHARE = 0.01  # of the time of the trace, from which it is worth telling


def sum_overhead_us(rows: dict[str, NDArray[Any]], cats: list[str]) -> int:
    """Microseconds in which the profiler delayed the recorded work; 0 where negligible.

    CUPTI's overhead records. What comes after all other events held up nothing.
    """
    its = np.asarray([cat.lower() == _CAT for cat in cats] or [False])[rows["cat"]]
    if not its.any() or its.all():
        return 0
    start, end = rows["start_ns"], rows["start_ns"] + rows["duration"]
    first, last = int(start[~its].min()), int(end[~its].max())
    begin, finish = np.maximum(start[its], first), np.minimum(end[its], last)
    order = np.argsort(begin, kind="stable")
    begin, finish = begin[order], np.maximum.accumulate(finish[order])
    covered = finish - np.maximum(begin, np.append(first, finish[:-1]))
    total = int(np.maximum(covered, 0).sum())
    return round(total / 1000) if total >= _LEAST_SHARE * (last - first) else 0
