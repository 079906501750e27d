"""What idle time amounts to: by the calls of the host that it is charged to, and by where the host was."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.idle import ELSEWHERE, LATE, PEERS
from perfkit.analysis.model.launches import GapRow, HostCallRow, QueuedIdle
from perfkit.analysis.trace.gaps import gap_rows
from perfkit.analysis.trace.host_calls import Calls, call_rows, host_calls
from perfkit.analysis.trace.idle_time import IdleTime, idle_time
from perfkit.analysis.trace.intervals import EMPTY, Intervals, union
from perfkit.analysis.trace.queued import queued_idle
from perfkit.analysis.trace.work.launches import Queue
from perfkit.analysis.trace.work.windows import Windows
from perfkit.trace.ops import Ops
from perfkit.trace.read import NONE


class IdleCauses(NamedTuple):
    """Per step: calls of the host, all idle time by its cause, what of it the host was late for, and what was queued.

    None where that is not known. `long` is when the host did something else than launching; `of` are the calls' events.
    """

    calls: tuple[HostCallRow, ...]
    of: Calls
    gaps: tuple[GapRow, ...] = ()
    late_s: float | None = None
    queued: QueuedIdle | None = None
    long: Intervals = EMPTY
    time: IdleTime | None = None


def idle_causes(ops: Ops, windows: Windows, waiting: Queue | None) -> IdleCauses:
    """What left a device without work within the windows; on a CPU (`waiting` is None) the calls alone."""
    host = host_calls(ops, windows)
    if waiting is None:
        return IdleCauses(call_rows(ops, windows, host, None), host)
    idle = idle_time(ops, windows, waiting, host)
    calls, gaps = call_rows(ops, windows, host, _charged(idle, host)), gap_rows(ops, windows, idle)
    if not waiting.known:
        return IdleCauses(calls, host, gaps, time=idle)
    late = idle.has_cause(LATE) & idle.within
    late_s = int(idle.length_ns[late].sum()) / 1e9 / max(len(windows), 1)
    long = idle.has_cause(ELSEWHERE, PEERS) & idle.within
    long_gaps = union(idle.begin_ns[long], idle.end_ns[long])
    return IdleCauses(calls, host, gaps, late_s, queued_idle(ops, windows, idle), long_gaps, idle)


def _charged(idle: IdleTime, calls: Calls) -> Mapping[int, int]:
    """What each call of the host is charged with."""
    events = np.concatenate(calls)
    charged = dict.fromkeys(events.tolist(), 0)
    mine = np.flatnonzero(idle.event != NONE)
    of, row = np.unique(idle.event[mine], return_inverse=True)
    sums = np.bincount(row, weights=idle.length_ns[mine]).astype(np.int64)
    return charged | dict(zip(of.tolist(), sums.tolist(), strict=True))
