"""How long a device was idle although something was launched, and before what."""

import numpy as np

from perfkit.analysis.model.trace import QueuedIdle
from perfkit.analysis.trace.intervals import covered, difference, union
from perfkit.analysis.trace.work.launches import Queue
from perfkit.analysis.trace.work.windows import Windows
from perfkit.trace.ops import Ops

# A kernel that is ready begins one to five microseconds after the one before it.
SHORT_S = 10e-6


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
    last = np.searchsorted(until, until[np.maximum(following - 1, 0)])  # the first to end as late as any before the gap
    same = (trace.device[event[following]] == trace.device[event[last]]) & (
        trace.stream[event[following]] == trace.stream[event[last]]
    )
    long = within > SHORT_S * 1e9
    parts = max(len(windows), 1)
    longest = int(within.argmax())
    return QueuedIdle(
        short_below_s=SHORT_S,
        short_s=int(within[~long].sum()) / 1e9 / parts,
        short_gaps=int((~long).sum()) / parts,
        long_s=int(within[long].sum()) / 1e9 / parts,
        long_gaps=int(long.sum()) / parts,
        same_stream_s=int(within[long & same].sum()) / 1e9 / parts,
        longest_s=int(within[longest]) / 1e9,
        longest_before=trace.names[int(trace.name[event[following[longest]]])],
    )
