"""The dependency graph of a recording: its events and their order.

Nodes are moments of the host's threads (`points`) and starts of kernels, edges what the rules of this package find. All
are columns.
"""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.replay.blocking_calls import BlockingCalls, find_blocking_calls
from perfkit.analysis.replay.device_activities import DeviceActivities, collect_device_activities
from perfkit.analysis.replay.edges import EdgeKind, Edges, Flags, join_edges, make_edges
from perfkit.analysis.replay.handoffs import Handoffs, find_handoffs
from perfkit.analysis.replay.host_points import HostPoints, PointCollector, PointRole
from perfkit.analysis.replay.simulation import NodeOrder, order_nodes
from perfkit.analysis.replay.stream_spacing import StreamSpacing, estimate_spacing
from perfkit.analysis.replay.stream_waits import find_event_edges, infer_edges
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.trace.model import NONE, Category, Ints
from perfkit.trace.ops.ops import Ops

# CUDA's queues take 1024; what the profiler itself launches and lacks makes it appear a little less.
_LEAST, _MOST = 900, 1100
# Kernels that begin within this after a launch returned made room for it: times are rounded.
_ROUNDED_NS = 10
# This many launches at the limit are not a coincidence.
_PLATEAU = 20


@dataclass(frozen=True)
class ThrottledLaunches:
    """Launches on streams whose queue was full: rows of `DeviceActivities`, the kernel whose start each waits for, and
    its own duration.

    `full` marks those that did wait; the others would if the device were slower.
    """

    row: Ints
    waits_for: Ints
    own_ns: Ints
    full: Flags


def find_throttled_launches(device: DeviceActivities) -> ThrottledLaunches:
    """The launches that a full queue held up, by the depth at which a stream's queue stops growing."""
    rows, sources, owns, fulls = [], [], [], []
    calls = device.by_call
    took = device.returned - device.called
    for lane in range(device.streams):
        its = calls[device.lane[calls] == lane]
        if len(its) <= _LEAST:
            continue
        begun = np.sort(device.begun[its])
        number = np.arange(len(its))
        depth = number - np.searchsorted(begun, device.returned[its] + _ROUNDED_NS, side="right")
        limit = int(depth.max())
        full = depth >= limit - 2
        if not _LEAST <= limit <= _MOST or int(full.sum()) < _PLATEAU:
            continue
        # At the limit `limit` kernels had not begun: the one before them is what made room, if it had begun by then.
        after = number > limit
        begun_by = np.searchsorted(begun, device.returned[its], side="right")
        waits_for = its[np.minimum(number - limit, begun_by)[after] - 1]
        free = its[~full]
        usual = int(np.median(took[free])) if len(free) else int(took[its].min())
        rows.append(its[after])
        sources.append(waits_for)
        owns.append(np.where(full, np.minimum(took[its], usual), took[its])[after])
        fulls.append(full[after])
    nothing = np.empty(0, np.int64)
    if not rows:
        return ThrottledLaunches(nothing, nothing, nothing, np.empty(0, np.bool_))
    return ThrottledLaunches(*(np.concatenate(part) for part in (rows, sources, owns, fulls)))


@dataclass(frozen=True)
class DependencyGraph:
    """Nodes: 0 is the beginning (`origin_ns`), then the `points`, then the kernels (rows of `device`).

    Attributes:
        at_ns: when each node was recorded, from the origin.
        duration_ns: of kernels, 0 of moments of the host.
        counted_steps: rows of the ops' steps that figures per step cover.
    """

    ops: Ops
    device: DeviceActivities
    points: HostPoints
    blocking: BlockingCalls
    spacing: StreamSpacing
    throttled: ThrottledLaunches
    origin_ns: int
    at_ns: Ints
    order: NodeOrder
    duration_ns: Ints
    counted_steps: Ints

    @property
    def first_kernel(self) -> int:
        return 1 + len(self.points)

    @property
    def edges(self) -> Edges:
        return self.order.edges

    def __len__(self) -> int:
        return len(self.at_ns)


def build_graph(ops: Ops, windows: StepWindows) -> DependencyGraph:
    """The graph of a trace."""
    device = collect_device_activities(ops)
    threads = _select_threads(ops, device)
    space = estimate_spacing(device)
    blocks = find_blocking_calls(ops, device, threads)
    full = find_throttled_launches(device)
    woken = find_handoffs(ops, threads)
    points = _collect_points(ops, windows, device, space, blocks, full, woken, threads)
    origin = min(
        int(points.at_ns.min(initial=np.iinfo(np.int64).max)), int(device.begun.min(initial=np.iinfo(np.int64).max))
    )
    first_kernel = 1 + len(points)
    count = first_kernel + len(device)
    table = join_edges(
        [
            *_build_host_edges(points, blocks, full, woken, origin),
            *_build_device_edges(ops, device, points, space, blocks, full, first_kernel, origin),
        ]
    )
    at_ns = np.concatenate(([0], points.at_ns - origin, device.begun - origin))
    rank = np.concatenate(([-1], np.arange(len(points)), np.full(len(device), len(points))))
    rank[first_kernel + full.waits_for] = -1  # the kernel that made room precedes the launch
    duration = np.zeros(count, np.int64)
    duration[first_kernel:] = device.ended - device.begun
    order = order_nodes(at_ns, rank, table, count)
    return DependencyGraph(ops, device, points, blocks, space, full, origin, at_ns, order, duration, windows.row)


def _select_threads(ops: Ops, device: DeviceActivities) -> Ints:
    """Threads that launch or mark steps; without any the one with the most ops.

    Others (a watchdog that polls, workers of a loader) do not hold up a device by what they do between two calls.
    """
    trace = ops.trace
    chosen = set(np.unique(device.thread[device.launched]).tolist())
    if len(ops.steps) and not ops.steps.on_device:
        chosen |= set(np.unique(ops.steps.thread).tolist())
    if not chosen and len(ops):
        chosen = {int(np.bincount(trace.thread[ops.event]).argmax())}
    return np.asarray(sorted(chosen), np.int64)


def _collect_points(
    ops: Ops,
    windows: StepWindows,
    device: DeviceActivities,
    space: StreamSpacing,
    blocks: BlockingCalls,
    full: ThrottledLaunches,
    woken: Handoffs,
    threads: Ints,
) -> HostPoints:
    collector = PointCollector.create_empty()
    trace = ops.trace
    leading = np.flatnonzero(device.launched & device.leads)
    # The work of a call that blocks is handed over when it begins, and so is that of one that waits for room.
    at = space.point.copy()
    waiting = blocks.row != NONE
    at[blocks.row[waiting]] = blocks.begin[waiting]
    collector.add(
        PointRole.POINT,
        device.thread[leading],
        _move_out_of_calls(blocks, device.thread[leading], at[leading]),
        leading,
    )
    numbers = np.arange(len(blocks))
    collector.add(PointRole.BEGIN, blocks.thread, blocks.begin, numbers)
    collector.add(PointRole.END, blocks.thread, blocks.end, numbers)
    numbers = len(blocks) + np.arange(len(full.row))
    collector.add(PointRole.BEGIN, device.thread[full.row], device.called[full.row], numbers)
    collector.add(PointRole.END, device.thread[full.row], device.returned[full.row], numbers)
    numbers = np.arange(len(woken.thread))
    collector.add(PointRole.SLEEPS, woken.thread, np.maximum(woken.slept, windows.span[0]), numbers)
    collector.add(PointRole.WAKES, woken.thread, woken.woke, numbers)
    collector.add(PointRole.MARK, woken.by, _move_out_of_calls(blocks, woken.by, woken.at), numbers)
    marks = np.concatenate([ops.steps.start_ns, ops.steps.end_ns])
    on = np.concatenate([ops.steps.thread, ops.steps.thread])
    if not ops.steps.on_device:
        here = np.isin(on, threads)
        collector.add(PointRole.MARK, on[here], marks[here], np.full(int(here.sum()), NONE))
    active = np.flatnonzero(trace.are(Category.OP, Category.LAUNCH, Category.RANGE))
    for thread in threads.tolist():
        its = active[trace.thread[active] == thread]
        if len(its):
            ends = np.asarray([trace.start_ns[its[0]], trace.end_ns[its].max()])
            collector.add(PointRole.MARK, np.full(2, thread), ends, np.full(2, NONE))
    return collector.build_points()


def _move_out_of_calls(blocks: BlockingCalls, thread: Ints, at: Ints) -> Ints:
    """Move moments within a blocking call to its beginning: nothing lies between the two."""
    moved = at.copy()
    for number in np.unique(blocks.thread).tolist():
        its = np.flatnonzero(blocks.thread == number)
        mine = np.flatnonzero(thread == number)
        which = np.searchsorted(blocks.begin[its], at[mine], side="right") - 1
        inside = (which >= 0) & (at[mine] < blocks.end[its[np.maximum(which, 0)]])
        moved[mine[inside]] = blocks.begin[its[which[inside]]]
    return moved


def _build_host_edges(
    points: HostPoints, blocks: BlockingCalls, full: ThrottledLaunches, woken: Handoffs, origin: int
) -> list[Edges]:
    node = 1 + np.arange(len(points))
    follows = (
        np.concatenate(([False], points.thread[1:] == points.thread[:-1])) if len(points) else np.empty(0, np.bool_)
    )
    lag = np.diff(points.at_ns, prepend=points.at_ns[:1]).astype(np.float64)
    kind = np.full(len(points), EdgeKind.HOST, np.int8)
    ends = points.role == PointRole.END
    own = np.concatenate([blocks.own_ns, full.own_ns])
    # Between the beginning and the end of a call only moments of work that it launches lie, moved to its beginning.
    lag[ends] = own[points.about[ends]]
    kind[ends] = EdgeKind.CALL
    wakes = points.role == PointRole.WAKES
    lag[wakes] = 0.0
    chain = Edges(node[follows] - 1, node[follows], kind[follows], lag[follows], np.zeros(int(follows.sum()), np.bool_))
    by = points.find_rows(PointRole.WAKES, len(woken.thread))
    mark = np.full(len(woken.thread), -1, np.int64)
    if len(woken.thread):
        marks = np.flatnonzero((points.role == PointRole.MARK) & (points.about != NONE))
        mark[points.about[marks]] = marks
    handed = make_edges(EdgeKind.HANDOFF, 1 + mark, 1 + by, woken.woke - woken.at)
    fresh = node[~follows & ~wakes]
    started = make_edges(EdgeKind.START, np.zeros(len(fresh), np.int64), fresh, points.at_ns[fresh - 1] - origin)
    return [chain, handed, started]


def _build_device_edges(
    ops: Ops,
    device: DeviceActivities,
    points: HostPoints,
    space: StreamSpacing,
    blocks: BlockingCalls,
    full: ThrottledLaunches,
    first_kernel: int,
    origin: int,
) -> list[Edges]:
    rows = np.arange(len(device))
    node = first_kernel + rows
    at = 1 + points.find_rows(PointRole.POINT, len(device))
    # The kernels of a graph hang on the launch of the first of them.
    launched = np.flatnonzero(device.launched)
    lead = _find_leaders(device)
    by_launch = make_edges(EdgeKind.LAUNCH, at[lead[launched]], node[launched], space.latency[launched])
    waiting = blocks.row != NONE
    lag = by_launch.lag_ns
    place = np.full(len(device), -1)
    place[launched] = np.arange(len(launched))
    moved = blocks.row[waiting]
    lag[place[moved]] = np.minimum(space.latency[moved], np.maximum(device.begun[moved] - blocks.begin[waiting], 0))
    chained = np.flatnonzero(device.before != NONE)
    by_stream = make_edges(
        EdgeKind.STREAM, node[device.before[chained]], node[chained], space.gap[chained], carries=True
    )
    waits = find_event_edges(ops, device)
    explained = np.full(len(device), -np.inf)
    point_at = np.append(points.at_ns, 0)[points.find_rows(PointRole.POINT, len(device))]
    explained[launched] = point_at[lead[launched]] + lag
    np.maximum.at(explained, chained, device.ended[device.before[chained]] + space.gap[chained])
    np.maximum.at(explained, waits.target, device.ended[waits.source] + waits.lag_ns)
    more = infer_edges(ops, device, explained)
    lone = rows[(device.before == NONE) & ~device.launched]
    started = make_edges(EdgeKind.START, np.zeros(len(lone), np.int64), node[lone], device.begun[lone] - origin)
    end_of = 1 + points.find_rows(PointRole.END, len(blocks) + len(full.row))
    known = np.flatnonzero(blocks.waits_for != NONE)
    to_end, to_begin = known[~blocks.at_begin[known]], known[blocks.at_begin[known]]
    after_end = make_edges(
        EdgeKind.SYNC, node[blocks.waits_for[to_end]], end_of[to_end], blocks.tail_ns[to_end], carries=True
    )
    after_begin = make_edges(
        EdgeKind.SYNC, node[blocks.waits_for[to_begin]], end_of[to_begin], blocks.tail_ns[to_begin]
    )
    room = make_edges(EdgeKind.QUEUE, node[full.waits_for], end_of[len(blocks) :], 0.0)
    return [
        by_launch,
        by_stream,
        Edges(node[waits.source], node[waits.target], waits.kind, waits.lag_ns, waits.carries),
        Edges(node[more.source], node[more.target], more.kind, more.lag_ns, more.carries),
        started,
        after_end,
        after_begin,
        room,
    ]


def _find_leaders(device: DeviceActivities) -> Ints:
    """For each row, the row that leads its launch."""
    leading = np.flatnonzero(device.launched & device.leads)
    order = leading[np.argsort(device.launch[leading], kind="stable")]
    result = np.arange(len(device))
    its = np.flatnonzero(device.launched)
    result[its] = order[np.searchsorted(device.launch[order], device.launch[its])]
    return result
