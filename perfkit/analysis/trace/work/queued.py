"""How long a device was idle although something was launched, and before what."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.launches import QueuedIdle
from perfkit.analysis.trace.intervals import covered, difference, union
from perfkit.analysis.trace.work.launches import Queue
from perfkit.analysis.trace.work.windows import Windows
from perfkit.trace.ops import Ops
from perfkit.trace.read import NONE

# A kernel that was launched already begins one to five microseconds after the one before it; from a launch to its
# kernel's start pass five to twenty, more while a profiler runs.
BETWEEN_S, LAUNCHING_S = 10e-6, 50e-6


def queued_idle(ops: Ops, windows: Windows, waiting: Queue) -> QueuedIdle | None:
    """Gaps between kernels within the windows in which something was queued; None where there are none."""
    trace, event = ops.trace, ops.kernels.event
    start, end = trace.start_ns[event], trace.end_ns[event]
    gaps = difference(union(windows.spans[:, 0], windows.spans[:, 1]), union(start, end))
    queued = difference(waiting.when(slice(None)), waiting.unrecorded)
    within = covered(gaps[:, 0], gaps[:, 1], queued)
    gaps, within = gaps[within > 0], within[within > 0]
    if not len(gaps):
        return None
    following = np.minimum(np.searchsorted(start, gaps[:, 1]), len(start) - 1)
    until = np.maximum.accumulate(end)
    parts = max(len(windows), 1)
    last = np.searchsorted(until, until[np.maximum(following - 1, 0)])  # the first to end as late as any before the gap
    same = (trace.device[event[following]] == trace.device[event[last]]) & (
        trace.stream[event[following]] == trace.stream[event[last]]
    )
    called = ops.kernels.launch[following]
    into_idle = (called != NONE) & (np.append(trace.end_ns, 0)[called] >= gaps[:, 0])
    long = within > np.where(into_idle, LAUNCHING_S, BETWEEN_S) * 1e9
    launching, between = into_idle & ~long, ~into_idle & ~long
    longest = int(np.where(long, within, -1).argmax())

    def total_s(chosen: NDArray[np.bool_]) -> float:
        return int(within[chosen].sum()) / 1e9 / parts

    return QueuedIdle(
        launching_s=total_s(launching),
        launching_gaps=int(launching.sum()) / parts,
        between_s=total_s(between),
        between_gaps=int(between.sum()) / parts,
        long_s=total_s(long),
        long_gaps=int(long.sum()) / parts,
        same_stream_s=total_s(long & same),
        longest_s=int(within[longest]) / 1e9 if long.any() else 0.0,
        longest_before=trace.names[int(trace.name[event[following[longest]]])] if long.any() else "",
    )
