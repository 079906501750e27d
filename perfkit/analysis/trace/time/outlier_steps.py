"""Outlier steps, which would distort the mean: first ones, those that compile, and single accidents."""

import re

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.intervals import Intervals, measure_covered, merge_intervals
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import Category, Ints, Trace

# A step that takes this many times a typical one is far from it.
UNLIKE = 3
# A larger share of steps is not an exception but another kind of step (prefill and decode).
_MOST = 1 / 3

# Marks of torch.compile while compiling, and calls that load kernel code.
_COMPILING = re.compile(r".*\(dynamo_timed\)|(cu|cuda|hip)(Module|Library)Load\w*")


def find_outlier_steps(spans: Intervals, trace: Trace) -> NDArray[np.bool_]:
    """Mask the steps, in order of time, that say nothing of the others; of two steps only the first can.

    They take far longer than a typical one, and are the first ones, compile, or are a single accident. Slow steps that
    recur (a loader that stalls, a checkpoint) are part of what the loop costs, and so is a first one like them.
    """
    lengths = spans[:, 1] - spans[:, 0]
    if len(lengths) < 2:
        return np.zeros(len(lengths), np.bool_)
    typical = int(np.sort(lengths)[(len(lengths) - 1) // 2])
    far = lengths > UNLIKE * typical
    if len(lengths) == 2:
        far[1] = False
    if not far.any():
        return far
    compiling = far.copy()
    compiling[far] = lengths[far] - _measure_compiling(trace, spans[far]) <= UNLIKE * typical
    first = np.logical_and.accumulate(far) & ~compiling
    recurring = far & ~first & ~compiling
    if recurring.sum() > 1:
        far &= ~recurring
        far &= ~first | (lengths > UNLIKE * int(np.median(lengths[recurring])))
    return far if far.sum() <= max(1, len(lengths) * _MOST) else np.zeros(len(lengths), np.bool_)


def measure_compiling_ns(trace: Trace, start: int, end: int) -> int:
    """The time of a span in which torch compiled or kernels' code was loaded."""
    return int(_measure_compiling(trace, np.asarray([[start, end]], np.int64))[0])


def _measure_compiling(trace: Trace, spans: Intervals) -> Ints:
    events = trace.select_events(Category.OP, Category.RANGE, Category.LAUNCH)
    events = events[mark_named(trace, events, lambda name: _COMPILING.fullmatch(name) is not None)]
    compiling = merge_intervals(trace.start_ns[events], trace.end_ns[events])
    return measure_covered(spans[:, 0], spans[:, 1], compiling)
