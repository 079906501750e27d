"""Threads that wait for each other: a forward's for the backward, a thread of autograd's for its work."""

from typing import NamedTuple

import numpy as np

from perfkit.analysis.replay.edges import Flags
from perfkit.analysis.trace.time.data_fetching import find_fetches
from perfkit.analysis.trace.time.intervals import measure_covered, merge_intervals
from perfkit.trace.model import Category, Ints
from perfkit.trace.ops.ops import Ops

# A thread that does nothing for less than this is in Python between two ops.
_IDLE_NS = 20_000
# The longest Python time of a working thread between two ops.
_PYTHON_NS = 100_000


class Handoffs(NamedTuple):
    """One row an idle time of a thread that others ended: it slept from `slept` to `woke`.

    `by` is the thread that woke it, at `at`: where that one had nothing more to do, or where it was when this went on.
    """

    thread: Ints
    slept: Ints
    woke: Ints
    by: Ints
    at: Ints


def find_handoffs(ops: Ops, threads: Ints) -> Handoffs:
    """Idle time of a thread with another thread working for more than half of it, up to that thread's progress.

    Where a thread's first event is late it waited from the beginning.
    """
    trace = ops.trace
    active = trace.are(Category.OP, Category.LAUNCH)
    active[find_fetches(trace)] = True  # autograd's thread waits for the loop, which waits for its data
    busy, bursts = {}, {}
    for thread in threads.tolist():
        rows = np.flatnonzero(active & (trace.thread == thread))
        busy[thread] = merge_intervals(trace.start_ns[rows], trace.end_ns[rows])
        bursts[thread] = merge_intervals(busy[thread][:, 0], busy[thread][:, 1] + _PYTHON_NS)
    parts = []
    for thread in threads.tolist():
        its = busy[thread]
        if not len(its):
            continue
        begin = np.append(np.iinfo(np.int64).min // 2, its[:-1, 1])
        end = its[:, 0]
        long = end - begin > _IDLE_NS
        begin, end = begin[long], end[long]
        share, by, at = np.zeros(len(end)), np.full(len(end), -1, np.int64), np.zeros(len(end), np.int64)
        for other in threads.tolist():
            theirs = busy[other]
            if other == thread or not len(theirs):
                continue
            first = np.maximum(begin, theirs[0, 0])
            worked = measure_covered(first, np.maximum(end, first), bursts[other]) / np.maximum(end - first, 1)
            last = np.searchsorted(theirs[:, 0], end, side="left") - 1
            until = np.minimum(theirs[np.maximum(last, 0), 1], end)
            better: Flags = (worked > np.maximum(share, 0.5)) & (last >= 0) & (until >= begin)
            share[better], by[better], at[better] = worked[better], other, until[better]
        woken = by != -1
        count = int(woken.sum())
        parts.append((np.full(count, thread), begin[woken], end[woken], by[woken], at[woken]))
    if not parts:
        return Handoffs(*(np.empty(0, np.int64) for _ in range(5)))
    return Handoffs(*(np.concatenate(column) for column in zip(*parts, strict=True)))
