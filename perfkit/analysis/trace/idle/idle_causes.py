"""Sums idle time by the CPU calls charged with it, and by the CPU place."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.idle import BETWEEN, ELSEWHERE, HELD_UP, LATE, OTHER_DEVICE, OTHER_STREAM, PEERS, STARTING
from perfkit.analysis.model.launches import GapRow, HostCallRow, QueuedIdle
from perfkit.analysis.trace.idle.host_calls import HostCalls, build_call_rows, find_host_calls
from perfkit.analysis.trace.idle.host_places import HostEvents
from perfkit.analysis.trace.idle.idle_gaps import build_gap_rows
from perfkit.analysis.trace.idle.idle_pieces import IdleTime
from perfkit.analysis.trace.idle.idle_time import find_idle_time
from perfkit.analysis.trace.time.intervals import EMPTY, Intervals, merge_intervals
from perfkit.analysis.trace.time.launch_queue import LaunchQueue
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


class IdleCauses(NamedTuple):
    """Per step: CPU calls, idle time by cause, the part due to late launches, and the part with work queued.

    None where that is not known. `long` is when the host did something else than launching; `of` are the calls' events.
    """

    calls: tuple[HostCallRow, ...]
    of: HostCalls
    gaps: tuple[GapRow, ...] = ()
    late_s: float | None = None
    queued: QueuedIdle | None = None
    long: Intervals = EMPTY
    time: IdleTime | None = None

    @property
    def beside(self) -> Intervals:
        """When the device is idle because another one works."""
        return EMPTY if self.time is None else self.time.find_spans(OTHER_DEVICE)


def find_idle_causes(ops: Ops, windows: StepWindows, waiting: LaunchQueue | None) -> tuple[IdleCauses, ...]:
    """Find what left each device without work within the windows; on a CPU (`waiting` is None) only the calls."""
    host = find_host_calls(ops, windows)
    if waiting is None:
        return (IdleCauses(build_call_rows(ops, windows, host, None), host),)
    events = HostEvents(ops)
    return tuple(
        _sum_idle_time(ops, windows, waiting, host, find_idle_time(ops, windows, waiting, host, index, events))
        for index in range(len(ops.devices))
    )


def _sum_idle_time(ops: Ops, windows: StepWindows, waiting: LaunchQueue, host: HostCalls, idle: IdleTime) -> IdleCauses:
    calls, gaps = build_call_rows(ops, windows, host, _sum_charged_idle(idle, host)), build_gap_rows(ops, windows, idle)
    if not waiting.known:
        return IdleCauses(calls, host, gaps, time=idle)
    late = idle.has_cause(LATE) & idle.within
    late_s = int(idle.length_ns[late].sum()) / 1e9 / max(len(windows), 1)
    long = idle.has_cause(ELSEWHERE, PEERS) & idle.within
    long_gaps = merge_intervals(idle.begin_ns[long], idle.end_ns[long])
    return IdleCauses(calls, host, gaps, late_s, measure_queued_idle(ops, windows, idle), long_gaps, idle)


def _sum_charged_idle(idle: IdleTime, calls: HostCalls) -> Mapping[int, int]:
    """The idle time within the steps charged to each CPU call."""
    events = np.concatenate(calls)
    charged = dict.fromkeys(events.tolist(), 0)
    mine = np.flatnonzero((idle.event != NONE) & idle.within)
    of, row = np.unique(idle.event[mine], return_inverse=True)
    sums = np.bincount(row, weights=idle.length_ns[mine]).astype(np.int64)
    return charged | dict(zip(of.tolist(), sums.tolist(), strict=True))
