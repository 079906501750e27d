"""Why a device had nothing to do: each interval of that time has one cause.

What the loop fetched its data in comes first, then calls that wait for the device or take its memory. These are charged
with their own duration and the time until the next launch, unless that is so long that the host did something else
meanwhile. What is left is a gap: a long one is told with what the host was in, and in short ones the host was late.
"""

from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.launches import GapRow, HostCallRow, QueuedIdle
from perfkit.analysis.trace.gaps import LONG_NS, gap_rows
from perfkit.analysis.trace.host_calls import call_rows, host_calls
from perfkit.analysis.trace.intervals import Intervals, Ints, covered, difference, joined, length, union
from perfkit.analysis.trace.work.fetching import when
from perfkit.analysis.trace.work.launches import Queue
from perfkit.analysis.trace.work.queued import queued_idle
from perfkit.analysis.trace.work.windows import Windows
from perfkit.device_calls import launches_graph
from perfkit.trace.naming import named
from perfkit.trace.ops import Ops
from perfkit.trace.read import NONE, Category


class IdleCauses(NamedTuple):
    """Per step: calls of the host, long gaps, short ones in which the host was late, and what was queued.

    None where that is not known.
    """

    calls: tuple[HostCallRow, ...]
    gaps: tuple[GapRow, ...] = ()
    late_s: float | None = None
    queued: QueuedIdle | None = None


def idle_causes(ops: Ops, windows: Windows, waiting: Queue | None) -> IdleCauses:
    """What left a device without work within the windows; on a CPU (`waiting` is None) the calls alone."""
    host = host_calls(ops, windows)
    if waiting is None:
        return IdleCauses(call_rows(ops, windows, host, None))
    idle = _idle(ops, windows, waiting)
    fetching = when(ops.trace, host.fetching)
    of_calls = difference(idle, fetching)
    begin, until = _charged(ops, windows, host.blocking)
    fetched_from, fetched_until = _in_turn(ops, host.fetching)
    charged = {
        **dict(zip(host.blocking.tolist(), covered(begin, until, of_calls).tolist(), strict=True)),
        **dict(zip(host.fetching.tolist(), covered(fetched_from, fetched_until, idle).tolist(), strict=True)),
    }
    calls = call_rows(ops, windows, host, charged)
    if not waiting.known:
        return IdleCauses(calls)
    gaps = difference(of_calls, union(begin, until))
    last = _launch_times(ops).max(initial=0)
    before_a_launch = gaps[:, 0] < last
    long = gaps[:, 1] - gaps[:, 0] >= LONG_NS
    late_s = length(gaps[~long & before_a_launch]) / 1e9 / max(len(windows), 1)
    return IdleCauses(calls, gap_rows(ops, windows, gaps[long]), late_s, queued_idle(ops, windows, waiting))


def _idle(ops: Ops, windows: Windows, waiting: Queue) -> Intervals:
    """When nothing ran on the device and, as far as that is known, nothing was queued."""
    event = ops.kernels.event
    seen = joined(union(ops.trace.start_ns[event], ops.trace.end_ns[event]), waiting.unrecorded)
    if waiting.known:
        everything = slice(None)
        seen = joined(seen, joined(waiting.when(everything), waiting.perhaps(everything)))
    return difference(union(windows.spans[:, 0], windows.spans[:, 1]), seen)


def _charged(ops: Ops, windows: Windows, calls: Ints) -> tuple[Ints, Ints]:
    """From when to when each call (in the order of time) can leave the device without work; these do not overlap."""
    trace = ops.trace
    begin, end = trace.start_ns[calls], trace.end_ns[calls]
    launches = _launch_times(ops)
    following = np.append(launches, NONE)[np.searchsorted(launches, end)]
    # After the last launch nothing has to wait any more.
    until = np.where(following == NONE, begin, np.where(following - end < LONG_NS, following, end))
    # Only what lies within the step, which the split of its time is about.
    until = np.minimum(until, windows.spans[windows.at(begin), 1])
    return begin, np.maximum(begin, np.minimum(until, np.append(begin[1:], np.iinfo(np.int64).max)))


def _launch_times(ops: Ops) -> Ints:
    trace = ops.trace
    calls = trace.of(Category.LAUNCH)
    graphs = calls[named(trace, calls, launches_graph)]
    launch = ops.kernels.launch
    return np.sort(trace.start_ns[np.union1d(launch[launch != NONE], graphs)])


def _in_turn(ops: Ops, ranges: Ints) -> tuple[Ints, Ints]:
    """Ranges, each until the next one begins if that is before its end."""
    begin, end = ops.trace.start_ns[ranges], ops.trace.end_ns[ranges]
    return begin, np.minimum(end, np.append(begin[1:], np.iinfo(np.int64).max))
