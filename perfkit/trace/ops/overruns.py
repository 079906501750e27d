"""Kernels that end later than their stream allows: their recorded end cannot be true.

A stream runs one thing after the other, so that work that still runs when the next has begun has a wrong end. Profilers
write such ends where they get completions late: 1.6 s of one kernel on ROCm (AMD-AGI/TraceLens#669), 7 of 55,423
kernels and copies that are 16 s too long in all (AMD-AGI/Hyperloom#1116). Perfetto and Chrome end such a slice where
the next one begins, and so does perfkit; how long it really took is unknown.

What overlaps on one stream for other reasons keeps its time:

- less than 10 us: clocks are rounded (4 us in Hyperloom#1116), and a kernel of programmatic dependent launch begins in
  the tail of the one before (2 us in traces of an H100);
- kernels of one launch: the branches of a graph run at the same time;
- longer overlaps with a kernel that programmatic dependent launch may have started, which only `cudaLaunchKernelEx` and
  `cuLaunchKernelEx` do, or of which no launch is recorded: it waits for the kernel before it, so that a true end is not
  after the end of any later kernel. Beyond that it is wrong;
- streams on which a quarter of all work would be wrong: these are no queues. Neither are those of other devices than
  CUDA's and HIP's taken for such (SYCL's run out of order).
"""

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Ints, Trace
from perfkit.trace.ops.kernels import Kernels

_TOLERATED_NS = 10_000
# A larger share of a stream's work is no exception.
_MOST = 1 / 4

_MAY_BEGIN_EARLY = re.compile(r"(cuda|cu)LaunchKernelEx\w*|(cuda|cu|hip)GraphLaunch\w*")


class Overruns(NamedTuple):
    """Columns: rows of `Kernels`, and by how much their recorded ends were too late at least."""

    kernel: Ints
    excess_ns: Ints


def clip_overruns(trace: Trace, kernels: Kernels) -> tuple[Trace, Overruns]:
    """The trace with impossible ends replaced by the start of what follows on the stream."""
    rows, until = _find_overruns(trace, kernels)
    if not len(rows):
        return trace, Overruns(rows, rows)
    event = kernels.event[rows]
    end_ns = trace.end_ns.copy()
    end_ns[event] = until
    return replace(trace, end_ns=end_ns), Overruns(rows, trace.end_ns[event] - until)


def _find_overruns(trace: Trace, kernels: Kernels) -> tuple[Ints, Ints]:
    """The rows of kernels, copies and fills that overrun the next of their stream, and when that one begins."""
    nothing = np.empty(0, np.int64)
    rows = np.flatnonzero(trace.stream[kernels.event] != NONE)
    if trace.runtime or len(rows) < 2:
        return nothing, nothing
    event = kernels.event[rows]
    order = np.lexsort((trace.start_ns[event], trace.stream[event], trace.device[event]))
    rows, event = rows[order], event[order]
    start, end = trace.start_ns[event], trace.end_ns[event]
    device, stream = trace.device[event], trace.stream[event]
    lane = np.cumsum(np.append(False, (device[1:] != device[:-1]) | (stream[1:] != stream[:-1])))
    if not ((end[:-1] > start[1:] + _TOLERATED_NS) & (lane[1:] == lane[:-1])).any():
        return nothing, nothing
    launch = _number_launches(trace, kernels, rows)
    heads = np.flatnonzero(np.append(True, (launch[1:] != launch[:-1]) | (lane[1:] != lane[:-1])))
    after = np.append(heads, len(rows))[np.searchsorted(heads, np.arange(len(rows)), side="right")]
    followed = np.append(lane, NONE)[after] == lane
    follower = np.minimum(after, len(rows) - 1)
    # Later streams are shifted behind earlier ones, so that the least later end is one of the same stream.
    shift = lane.astype(np.int64) * (int(end.max()) - int(end.min()) + 1)
    least_end = np.minimum.accumulate((end + shift)[::-1])[::-1][follower] - shift
    wrong = followed & (start[follower] > start) & (end > start[follower] + _TOLERATED_NS)
    wrong &= _must_wait(trace, kernels, rows)[follower] | (end > least_end + _TOLERATED_NS)
    counts = np.bincount(lane)
    wrong &= (np.bincount(lane, weights=wrong) <= _MOST * counts)[lane]
    return rows[wrong], start[follower[wrong]]


def _number_launches(trace: Trace, kernels: Kernels, rows: Ints) -> Ints:
    """A number of each launch: that of its call, without one that of its graph, else its own."""
    launch, node = kernels.launch[rows].astype(np.int64), trace.node[kernels.event[rows]].astype(np.int64)
    own = -2 - 2 * np.arange(len(rows))
    return np.where(launch != NONE, launch, np.where(node != NONE, -3 - 2 * (node >> 32), own))


def _must_wait(trace: Trace, kernels: Kernels, rows: Ints) -> NDArray[np.bool_]:
    """Mask what cannot begin before the work before it has ended."""
    launch = kernels.launch[rows]
    known = launch != NONE
    waits: NDArray[np.bool_] = known.copy()
    waits[known] = ~mark_named(trace, launch[known], lambda name: _MAY_BEGIN_EARLY.match(name) is not None)
    return waits
