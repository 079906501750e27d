"""Times in which a device may have run unrecorded work, so that idleness is unknown.

- Before its first recorded kernel: what was launched before the recording began may still have run. It is over once the
  host has waited for the whole device.
- From the start (without one, from the launch) of a kernel whose record has no duration, as long as the longest equal
  one takes, at most until a kernel begins that was launched after it, or the host has waited for the whole device.
- From the launch of a graph of which no kernel was recorded, until a kernel begins that was launched after it on the
  busiest stream, or the host has waited for the whole device.
- The same from the launch of a kernel that is lost, where many are (`find_lost_launches`).
"""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.intervals import EMPTY, Intervals, join_intervals, merge_intervals
from perfkit.analysis.trace.time.lost_kernels import find_lost_launches
from perfkit.analysis.trace.time.mixed_up_ids import has_mixed_up_ids
from perfkit.devices.device_calls import is_device_sync, is_graph_launch
from perfkit.trace.event_names import mark_named
from perfkit.trace.match_ids import find_latest_before
from perfkit.trace.model import NONE, Category, Ints, Small
from perfkit.trace.ops.ops import Ops


def find_unrecorded_time(ops: Ops) -> Intervals:
    """Find times without a recorded kernel in which idleness is unknown."""
    if not len(ops.kernels):
        return EMPTY
    found = join_intervals(_find_time_before_first(ops), _find_silent_graph_time(ops))
    found = join_intervals(found, _find_time_after_launches(ops, find_lost_launches(ops)))
    return join_intervals(found, _find_untimed_time(ops)) if len(ops.trace.untimed.start_ns) else found


def _find_time_before_first(ops: Ops) -> Intervals:
    trace = ops.trace
    begun = int(trace.start_ns[ops.kernels.event].min())
    waited = _find_device_waits(ops)
    return merge_intervals([int(trace.start_ns.min())], [min(begun, int(trace.end_ns[waited].min(initial=begun)))])


def _find_silent_graph_time(ops: Ops) -> Intervals:
    is_graph = mark_named(ops.trace, ops.launches.event, is_graph_launch)
    has_kernel = ops.launches.kernels > 0
    graphs = ops.launches.event[is_graph & ~has_kernel]
    # A call of the driver within the runtime's has the other's kernels, or the other way round.
    answered = ops.launches.event[is_graph & has_kernel]
    graphs = graphs[~_is_overlapping(ops, graphs, answered)]
    return EMPTY if has_mixed_up_ids(ops, graphs) else _find_time_after_launches(ops, graphs)


def _find_time_after_launches(ops: Ops, calls: Ints) -> Intervals:
    """From each of these calls until a kernel begins that was launched later, or the host waited for the device."""
    if not len(calls):
        return EMPTY
    trace = ops.trace
    begun = trace.start_ns[calls]
    last = int(trace.end_ns.max())
    waited = _find_device_waits(ops)
    until = np.minimum(
        _find_first_after(begun, *_list_busiest_stream(ops), last),
        _find_first_after(begun, trace.start_ns[waited], trace.end_ns[waited], last),
    )
    return merge_intervals(begun, until)


def _find_untimed_time(ops: Ops) -> Intervals:
    trace, untimed, calls = ops.trace, ops.trace.untimed, ops.launches.event
    first, last = int(trace.start_ns.min()), int(trace.end_ns.max())
    started = np.where(untimed.start_ns > 0, untimed.start_ns, last)
    launch = find_latest_before(
        untimed.correlation.astype(np.int64), started, trace.correlation[calls].astype(np.int64), trace.start_ns[calls]
    )
    asked = np.where(launch == NONE, untimed.start_ns, np.append(trace.start_ns[calls], 0)[launch])
    begun = np.where(untimed.start_ns > 0, untimed.start_ns, asked)
    waited = _find_device_waits(ops)
    until = np.minimum(
        _find_first_after(asked, *_list_busiest_stream(ops), last),
        _find_first_after(asked, trace.start_ns[waited], trace.end_ns[waited], last),
    )
    until = np.minimum(until, begun + _find_longest(ops, untimed.name, last - first))
    return merge_intervals(begun[begun > 0], until[begun > 0])


def _find_longest(ops: Ops, name: Small, otherwise: int) -> Ints:
    """The time of the longest kernel of each name, `otherwise` without any."""
    event = ops.kernels.event
    longest = np.zeros(len(ops.trace.names), np.int64)
    np.maximum.at(longest, ops.trace.name[event], ops.trace.end_ns[event] - ops.trace.start_ns[event])
    return np.where(longest[name] > 0, longest[name], otherwise)


def _is_overlapping(ops: Ops, calls: Ints, others: Ints) -> NDArray[np.bool_]:
    """Mask calls that overlap another call on their thread."""
    trace = ops.trace
    overlapping = np.zeros(len(calls), np.bool_)
    for thread in np.unique(trace.thread[calls]).tolist():
        mine = np.flatnonzero(trace.thread[calls] == thread)
        theirs = others[trace.thread[others] == thread]
        if len(theirs):
            # The last of them that began before the end of the call: they follow each other.
            last = np.searchsorted(trace.start_ns[theirs], trace.end_ns[calls[mine]], side="left") - 1
            overlapping[mine] = (last >= 0) & (trace.end_ns[theirs[np.maximum(last, 0)]] > trace.start_ns[calls[mine]])
    return overlapping


def _list_busiest_stream(ops: Ops) -> tuple[Ints, Ints]:
    """The launch times and start times of kernels on the busiest stream."""
    trace, kernels = ops.trace, ops.kernels
    known = np.flatnonzero(kernels.launch != NONE)
    event = kernels.event[known]
    lane = np.column_stack((ops.devices.of[known], trace.stream[event]))
    if not len(lane):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    _, of, count = np.unique(lane, axis=0, return_inverse=True, return_counts=True)
    mine = of.ravel() == int(count.argmax())
    return trace.start_ns[kernels.launch[known[mine]]], trace.start_ns[event[mine]]


def _find_first_after(times: Ints, asked: Ints, done: Ints, last: int) -> Ints:
    """For each time, the earliest `done` of what was `asked` for later; `last` without any."""
    order = np.argsort(asked, kind="stable")
    earliest = np.append(np.minimum.accumulate(done[order][::-1])[::-1], last)
    first: Ints = earliest[np.searchsorted(asked[order], times, side="right")]
    return first


def _find_device_waits(ops: Ops) -> Ints:
    trace = ops.trace
    calls = trace.select_events(Category.LAUNCH)
    return calls[mark_named(trace, calls, is_device_sync)]
