"""Idle time of a device with work queued, by the op that followed."""

import numpy as np

from perfkit.analysis.model.idle import BETWEEN, HELD_UP, OTHER_STREAM, STARTING
from perfkit.analysis.model.launches import QueuedIdle
from perfkit.analysis.trace.idle.idle_time import IdleTime
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import Ops


def measure_queued_idle(ops: Ops, windows: StepWindows, idle: IdleTime) -> QueuedIdle | None:
    """Measure gaps between kernels within the windows with work queued; None without any."""
    trace, kernels = ops.trace, ops.kernels
    parts = max(len(windows), 1)
    queued = idle.has_cause(STARTING, BETWEEN, OTHER_STREAM, HELD_UP) & idle.within
    if not queued.any():
        return None

    def total(*causes: str) -> tuple[float, float]:
        """Seconds and gaps per step."""
        rows = idle.has_cause(*causes) & idle.within
        return int(idle.length_ns[rows].sum()) / 1e9 / parts, int(np.count_nonzero(np.bincount(idle.gap[rows]))) / parts

    (launching_s, launching), (between_s, between) = total(STARTING), total(BETWEEN)
    long_s, long = total(OTHER_STREAM, HELD_UP)
    delayed = np.flatnonzero(idle.has_cause(OTHER_STREAM, HELD_UP) & idle.within)
    lasts = np.bincount(idle.gap[delayed], weights=idle.length_ns[delayed])
    longest = delayed[lasts[idle.gap[delayed]].argmax()] if len(delayed) else NONE
    return QueuedIdle(
        launching_s=launching_s,
        launching_gaps=launching,
        between_s=between_s,
        between_gaps=between,
        long_s=long_s,
        long_gaps=long,
        same_stream_s=total(HELD_UP)[0],
        longest_s=float(lasts.max()) / 1e9 if len(delayed) else 0.0,
        longest_before=trace.names[int(trace.name[kernels.event[idle.following[longest]]])] if len(delayed) else "",
    )
