"""Splits the idle time of a device by cause: each moment has one.

With nothing queued, data fetching comes first, then calls that wait for the device or allocate its memory. These are
charged with their own duration and the time until the next launch, unless it is so long that the CPU did other work
meanwhile. In the rest the CPU launched late or, in a long gap, was busy elsewhere.

Of several devices of a process, one that is idle for long while another works has no other cause: it waits for the
other's results, or has less to do.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.idle import (
    ALLOCATION,
    AT_THE_END,
    BETWEEN,
    ELSEWHERE,
    HELD_UP,
    LATE,
    OTHER_STREAM,
    PEERS,
    STARTING,
    SYNC,
)
from perfkit.analysis.model.time_split import DATA, IDLE_UNKNOWN, UNRECORDED
from perfkit.analysis.trace.idle.host_calls import HostCalls
from perfkit.analysis.trace.idle.host_places import HostEvents, HostPlaces, ThreadSpans
from perfkit.analysis.trace.idle.idle_pieces import NUMBER, IdleCollector, IdleTime
from perfkit.analysis.trace.idle.other_devices import charge_others, find_busy_beside
from perfkit.analysis.trace.time.data_fetching import merge_event_times
from perfkit.analysis.trace.time.intervals import (
    Intervals,
    clip_intervals,
    exclude_intervals,
    find_overlaps,
    measure_covered,
    merge_intervals,
    subtract_intervals,
)
from perfkit.analysis.trace.time.launch_queue import LaunchQueue
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op
from perfkit.devices.device_calls import is_graph_launch
from perfkit.trace.annotations import COLLECTIVE_RANGES
from perfkit.trace.event_names import EventNames, mark_named
from perfkit.trace.model import NONE, Category, Ints
from perfkit.trace.ops.ops import Ops
from perfkit.trace.ops.traced_devices import Rows

# A host that launches work does so every few to some hundred microseconds. Where nothing comes for this long, it did
# something else.
LONG_NS = 1_000_000

# A kernel that was launched already begins one to five microseconds after the one before it; from a launch to its
# kernel's start pass five to twenty, more while a profiler runs.
BETWEEN_NS, STARTING_NS = 10_000, 50_000

_LATEST = np.iinfo(np.int64).max


def find_idle_time(
    ops: Ops,
    spans: StepWindows,
    waiting: LaunchQueue,
    calls: HostCalls,
    device: int = 0,
    host: HostEvents | None = None,
) -> IdleTime:
    """The idle time of a device (a row of `ops.devices`) in the whole trace, cut where steps begin after something else
    and end before something else.

    `calls` are the trace's `host_calls`, and `host` its `HostEvents` if known.
    """
    trace, rows = ops.trace, ops.devices.rows[device]
    event = ops.kernels.event[rows]
    begun, ended = trace.start_ns[event], trace.end_ns[event]
    others = find_busy_beside(ops, device)
    steps = merge_intervals(spans.spans[:, 0], spans.spans[:, 1])
    nothing = subtract_intervals(merge_intervals([spans.span[0]], [spans.span[1]]), merge_intervals(begun, ended))
    gaps = np.concatenate([clip_intervals(nothing, steps), subtract_intervals(nothing, steps)])
    gaps = gaps[np.argsort(gaps[:, 0], kind="stable")]
    collector = IdleCollector(gaps)
    collector.add(UNRECORDED, clip_intervals(gaps, waiting.unrecorded))
    rest = exclude_intervals(gaps, waiting.unrecorded)
    if waiting.known:
        queued, perhaps = waiting.find_queued_time(rows), waiting.find_possibly_queued_time(rows)
        pieces = find_overlaps(rest, queued[:, 0], queued[:, 1])[0]
        _classify_queued(ops, rows, gaps, charge_others(gaps, pieces, others, STARTING_NS, collector), collector)
        rest = exclude_intervals(rest, queued)
        collector.add(IDLE_UNKNOWN, find_overlaps(rest, perhaps[:, 0], perhaps[:, 1])[0])
        rest = exclude_intervals(rest, perhaps)
    launched = _list_launch_times(ops, rows)
    rest = _charge_fetching(ops, calls, rest, collector)
    rest = charge_others(gaps, rest, others, LONG_NS, collector)
    rest = _charge_calls(ops, spans, calls, launched, rest, collector)
    _classify_host_time(waiting, launched, rest, collector)
    idle = _build_idle_time(ops, rows, steps, collector, host or HostEvents(ops))
    return replace(idle, device=device)


def _classify_queued(ops: Ops, rows: Rows, gaps: Intervals, pieces: Intervals, collector: IdleCollector) -> None:
    """Classify idle pieces with work queued, by what came next and by their length."""
    trace, event = ops.trace, ops.kernels.event[rows]
    start, end = trace.start_ns[event], trace.end_ns[event]
    gap = np.searchsorted(gaps[:, 0], pieces[:, 0], side="right") - 1
    lasts = np.bincount(gap, weights=pieces[:, 1] - pieces[:, 0], minlength=len(gaps))[gap]
    following = np.minimum(np.searchsorted(start, gaps[gap, 1]), max(len(start) - 1, 0))
    into_idle = _is_launched_into_idle(ops, rows, gaps[gap, 0], following)
    until = np.maximum.accumulate(end)
    last = np.searchsorted(until, until[np.maximum(following - 1, 0)])  # the first to end as late as any before the gap
    same = trace.stream[event[following]] == trace.stream[event[last]]
    long = lasts > np.where(into_idle, STARTING_NS, BETWEEN_NS)
    cause = np.where(
        long,
        np.where(same, NUMBER[HELD_UP], NUMBER[OTHER_STREAM]),
        np.where(into_idle, NUMBER[STARTING], NUMBER[BETWEEN]),
    )
    collector.add(cause.astype(np.int8), pieces)


def _is_launched_into_idle(ops: Ops, rows: Rows, begin: Ints, following: Ints) -> NDArray[np.bool_]:
    """True where a kernel was launched onto a device idle since `begin`."""
    called = ops.kernels.launch[rows][following]
    into_idle: NDArray[np.bool_] = (called != NONE) & (np.append(ops.trace.end_ns, 0)[called] >= begin)
    return into_idle


def _charge_fetching(ops: Ops, calls: HostCalls, rest: Intervals, collector: IdleCollector) -> Intervals:
    """Charge idle time to data fetching; returns what is left of it."""
    trace = ops.trace
    fetched = merge_event_times(trace, calls.fetching)
    begin = trace.start_ns[calls.fetching]
    pieces, _, turn = find_overlaps(
        find_overlaps(rest, fetched[:, 0], fetched[:, 1])[0], begin, np.append(begin[1:], _LATEST)
    )
    collector.add(DATA, pieces, calls.fetching[turn])
    return exclude_intervals(rest, fetched)


def _charge_calls(
    ops: Ops, spans: StepWindows, calls: HostCalls, launched: Ints, rest: Intervals, collector: IdleCollector
) -> Intervals:
    """Charge idle time to blocking calls; returns what is left of it."""
    begin, until = _find_charged_spans(ops, spans, calls.blocking, launched)
    pieces, _, call = find_overlaps(rest, begin, until)
    waits = np.isin(calls.blocking[call], calls.waits)
    cause = np.where(waits, NUMBER[SYNC], NUMBER[ALLOCATION]).astype(np.int8)
    collector.add(cause, pieces, calls.blocking[call])
    return exclude_intervals(rest, merge_intervals(begin, until))


def _find_charged_spans(ops: Ops, spans: StepWindows, calls: Ints, launched: Ints) -> tuple[Ints, Ints]:
    """The non-overlapping spans in which each call (in order of time) can leave the device without work."""
    trace = ops.trace
    begin, end = trace.start_ns[calls], trace.end_ns[calls]
    following = np.append(launched, NONE)[np.searchsorted(launched, end)]
    # After the last launch nothing has to wait any more.
    until = np.where(following == NONE, begin, np.where(following - end < LONG_NS, following, end))
    # Only the part within the step, as in its time split.
    until = np.minimum(until, spans.spans[spans.find_windows(begin), 1])
    return begin, np.maximum(begin, np.minimum(until, np.append(begin[1:], _LATEST)))


def _list_launch_times(ops: Ops, rows: Rows) -> Ints:
    """The times at which some kernels, and graphs, were launched, in order."""
    trace = ops.trace
    calls = trace.select_events(Category.LAUNCH)
    graphs = calls[mark_named(trace, calls, is_graph_launch)]
    launch = ops.kernels.launch[rows]
    return np.sort(trace.start_ns[np.concatenate((launch[launch != NONE], graphs))])


def _classify_host_time(waiting: LaunchQueue, launched: Ints, rest: Intervals, collector: IdleCollector) -> None:
    """Classify idle time without another cause: late launches, or CPU busy elsewhere."""
    if not waiting.known:
        collector.add(IDLE_UNKNOWN, rest)
        return
    last = launched.max(initial=0)
    long = rest[:, 1] - rest[:, 0] >= LONG_NS
    cause = np.where(long, NUMBER[ELSEWHERE], np.where(rest[:, 0] < last, NUMBER[LATE], NUMBER[AT_THE_END]))
    collector.add(cause.astype(np.int8), rest)


def _build_idle_time(ops: Ops, rows: Rows, steps: Intervals, collector: IdleCollector, host: HostEvents) -> IdleTime:
    pieces, cause, event = (
        np.concatenate(collector.pieces),
        np.concatenate(collector.causes),
        np.concatenate(collector.events),
    )
    order = np.argsort(pieces[:, 0], kind="stable")
    pieces, cause, event = pieces[order], cause[order], event[order]
    begun = ops.trace.start_ns[ops.kernels.event[rows]]
    following = np.append(np.arange(len(ops.kernels))[rows], NONE)[np.searchsorted(begun, pieces[:, 1])]
    busiest = _find_busiest_thread(ops)
    where, looked = _select_lookups(ops, pieces, cause, event, following, busiest)
    idle = IdleTime(
        begin_ns=pieces[:, 0],
        end_ns=pieces[:, 1],
        cause=cause,
        gap=np.searchsorted(collector.gaps[:, 0], pieces[:, 0], side="right") - 1,
        event=event,
        following=following,
        within=np.searchsorted(steps[:, 0], pieces[:, 0], side="right")
        > np.searchsorted(steps[:, 1], pieces[:, 0], side="right"),
        places=_spread_rows(_look_up_places(host, where, busiest), looked),
        host=host,
    )
    return _mark_peer_waits(ops, idle)


_IN_THE_WAY = [NUMBER[cause] for cause in (DATA, SYNC, ALLOCATION, ELSEWHERE, LATE, AT_THE_END)]


def _select_lookups(
    ops: Ops, pieces: Intervals, cause: NDArray[np.int8], event: Ints, following: Ints, busiest: int
) -> tuple[ThreadSpans, NDArray[np.bool_]]:
    """Select the CPU lookups, and the pieces that need them."""
    trace = ops.trace
    looked = np.isin(cause, _IN_THE_WAY)
    pieces, event, following = pieces[looked], event[looked], following[looked]
    # On the thread that launched the next work, or in the call itself.
    launch = np.append(ops.kernels.launch, NONE)[following]
    thread = np.where(launch == NONE, busiest, np.append(trace.thread, NONE)[launch])
    charged = event != NONE
    return (
        ThreadSpans(
            np.where(charged, trace.thread[event], thread).astype(np.int64),
            np.where(charged, trace.start_ns[event], pieces[:, 0]),
            np.where(charged, trace.end_ns[event], pieces[:, 1]),
        ),
        looked,
    )


def _find_busiest_thread(ops: Ops) -> int:
    """The thread with most ops."""
    return int(np.bincount(ops.trace.thread[ops.event]).argmax()) if len(ops) else NONE


def _look_up_places(host: HostEvents, where: ThreadSpans, busiest: int) -> HostPlaces:
    """The CPU places, from the busiest thread where the launching thread has none."""
    places = host.find_places(where)
    lost = np.flatnonzero(~places.known & (where.thread != busiest))
    if not len(lost):
        return places
    lost_lookups = where.select_rows(lost)
    more = host.find_places(replace(lost_lookups, thread=np.full(len(lost_lookups), busiest)))
    for name, column in places.columns.items():
        column[lost] = more.columns[name]
    return places


def _spread_rows(places: HostPlaces, looked: NDArray[np.bool_]) -> HostPlaces:
    """Repeat rows to match the pieces."""
    wide = {}
    for name, column in places.columns.items():
        wide[name] = np.full(len(looked), NONE, np.int32)
        wide[name][looked] = column
    return HostPlaces(modules=places.modules, **wide)


def _mark_peer_waits(ops: Ops, idle: IdleTime) -> IdleTime:
    """Mark waits for other ranks: a CPU long in a collective, or one whose collective runs elsewhere."""
    trace = ops.trace
    ranges = trace.select_events(Category.RANGE, Category.OP)
    ranges = ranges[mark_named(trace, ranges, lambda name: name.startswith(COLLECTIVE_RANGES))]
    going_on = measure_covered(
        idle.begin_ns, idle.end_ns, merge_intervals(trace.start_ns[ranges], trace.end_ns[ranges])
    )
    op = idle.places.op
    collective = EventNames(trace.names, op[op != NONE]).are(lambda name: classify_op(name) == OpClass.COMMUNICATION)
    waiting = 2 * going_on > idle.length_ns
    waiting[op != NONE] |= collective
    waits = idle.has_cause(ELSEWHERE) & waiting
    return replace(idle, cause=np.where(waits, NUMBER[PEERS], idle.cause).astype(np.int8))
