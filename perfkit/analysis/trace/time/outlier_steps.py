"""Outlier steps, which would distort the mean: a first one, or one that compiles."""

import re

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.intervals import clip_intervals, measure_length, merge_intervals
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import Category, Ints, Trace

# A step that takes this many times a typical one is unlike it.
UNLIKE = 3
# A larger share of steps is not an exception but another kind of step (prefill and decode).
_MOST = 1 / 3

# Marks of torch.compile while compiling, and calls that load kernel code.
_COMPILING = re.compile(r".*\(dynamo_timed\)|(cu|cuda|hip)(Module|Library)Load\w*")


def find_outlier_steps(lengths: Ints) -> NDArray[np.bool_]:
    """Mask steps, in order of time, that take far longer than a typical one; of two steps only the first can."""
    far = np.zeros(len(lengths), np.bool_)
    if len(lengths) < 2:
        return far
    typical = int(np.sort(lengths)[(len(lengths) - 1) // 2])
    far = lengths > UNLIKE * typical
    if len(lengths) == 2:
        far[1] = False
    return far if far.sum() <= max(1, len(lengths) * _MOST) else np.zeros(len(lengths), np.bool_)


def measure_compiling_ns(trace: Trace, start: int, end: int) -> int:
    """The time of a span in which torch compiled or kernels' code was loaded."""
    events = trace.select_events(Category.OP, Category.RANGE, Category.LAUNCH)
    events = events[mark_named(trace, events, lambda name: _COMPILING.fullmatch(name) is not None)]
    compiling = merge_intervals(trace.start_ns[events], trace.end_ns[events])
    return measure_length(clip_intervals(compiling, merge_intervals([start], [end])))
