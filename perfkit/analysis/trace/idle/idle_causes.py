"""Sums idle time by the CPU calls charged with it, and by the CPU place."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.idle import ELSEWHERE, LATE, PEERS
from perfkit.analysis.model.launches import GapRow, HostCallRow, QueuedIdle
from perfkit.analysis.trace.idle.host_calls import HostCalls, build_call_rows, find_host_calls
from perfkit.analysis.trace.idle.idle_gaps import build_gap_rows
from perfkit.analysis.trace.idle.idle_time import IdleTime, find_idle_time
from perfkit.analysis.trace.idle.queued_idle import measure_queued_idle
from perfkit.analysis.trace.time.intervals import EMPTY, Intervals, merge_intervals
from perfkit.analysis.trace.time.launch_queue import LaunchQueue
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import Ops


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


def find_idle_causes(ops: Ops, windows: StepWindows, waiting: LaunchQueue | None) -> IdleCauses:
    """Find what left a device without work within the windows; on a CPU (`waiting` is None) only the calls."""
    host = find_host_calls(ops, windows)
    if waiting is None:
        return IdleCauses(build_call_rows(ops, windows, host, None), host)
    idle = find_idle_time(ops, windows, waiting, host)
    calls, gaps = build_call_rows(ops, windows, host, _sum_charged_idle(idle, host)), build_gap_rows(ops, windows, idle)
    if not waiting.known:
        return IdleCauses(calls, host, gaps, time=idle)
    late = idle.has_cause(LATE) & idle.within
    late_s = int(idle.length_ns[late].sum()) / 1e9 / max(len(windows), 1)
    long = idle.has_cause(ELSEWHERE, PEERS) & idle.within
    long_gaps = merge_intervals(idle.begin_ns[long], idle.end_ns[long])
    return IdleCauses(calls, host, gaps, late_s, measure_queued_idle(ops, windows, idle), long_gaps, idle)


def _sum_charged_idle(idle: IdleTime, calls: HostCalls) -> Mapping[int, int]:
    """The idle time charged to each CPU call."""
    events = np.concatenate(calls)
    charged = dict.fromkeys(events.tolist(), 0)
    mine = np.flatnonzero(idle.event != NONE)
    of, row = np.unique(idle.event[mine], return_inverse=True)
    sums = np.bincount(row, weights=idle.length_ns[mine]).astype(np.int64)
    return charged | dict(zip(of.tolist(), sums.tolist(), strict=True))
