"""The graph of a recording: what happened, and what had to happen before.

Nodes are moments of the host's threads (`points`) and starts of kernels, edges what the rules of this package find. All
are columns.
"""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.replay.blocking import Blocking, blocking
from perfkit.analysis.replay.device import Device, device_of
from perfkit.analysis.replay.edges import Edge, Edges, edges, together
from perfkit.analysis.replay.handoff import Handoffs, handoffs
from perfkit.analysis.replay.points import Collected, Points, Role
from perfkit.analysis.replay.queue import Throttled, throttled
from perfkit.analysis.replay.simulate import Order, order_of
from perfkit.analysis.replay.streams import Spacing, spacing
from perfkit.analysis.replay.streams_wait import by_events, inferred
from perfkit.analysis.trace.work.windows import Windows
from perfkit.trace.ops import Ops
from perfkit.trace.read import NONE, Category, Ints


@dataclass(frozen=True)
class Graph:
    """Nodes: 0 is the beginning (`origin_ns`), then the `points`, then the kernels (rows of `device`).

    Attributes:
        at_ns: when each node was recorded, from the origin.
        duration_ns: of kernels, 0 of moments of the host.
    """

    ops: Ops
    device: Device
    points: Points
    blocking: Blocking
    spacing: Spacing
    throttled: Throttled
    origin_ns: int
    at_ns: Ints
    order: Order
    duration_ns: Ints

    @property
    def first_kernel(self) -> int:
        return 1 + len(self.points)

    @property
    def edges(self) -> Edges:
        return self.order.edges

    def __len__(self) -> int:
        return len(self.at_ns)


def graph_of(ops: Ops, windows: Windows) -> Graph:
    """The graph of a trace."""
    device = device_of(ops)
    threads = _threads(ops, device)
    space = spacing(device)
    blocks = blocking(ops, device, threads)
    full = throttled(device)
    woken = handoffs(ops, threads)
    points = _points(ops, windows, device, space, blocks, full, woken, threads)
    origin = min(
        int(points.at_ns.min(initial=np.iinfo(np.int64).max)), int(device.begun.min(initial=np.iinfo(np.int64).max))
    )
    first_kernel = 1 + len(points)
    count = first_kernel + len(device)
    table = together(
        [
            *_host_edges(points, blocks, full, woken, origin),
            *_device_edges(ops, device, points, space, blocks, full, first_kernel, origin),
        ]
    )
    at_ns = np.concatenate(([0], points.at_ns - origin, device.begun - origin))
    rank = np.concatenate(([-1], np.arange(len(points)), np.full(len(device), len(points))))
    rank[first_kernel + full.waits_for] = -1  # what made room comes before what it made room for
    duration = np.zeros(count, np.int64)
    duration[first_kernel:] = device.ended - device.begun
    order = order_of(at_ns, rank, table, count)
    return Graph(ops, device, points, blocks, space, full, origin, at_ns, order, duration)


def _threads(ops: Ops, device: Device) -> Ints:
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


def _points(
    ops: Ops,
    windows: Windows,
    device: Device,
    space: Spacing,
    blocks: Blocking,
    full: Throttled,
    woken: Handoffs,
    threads: Ints,
) -> Points:
    found = Collected.create_empty()
    trace = ops.trace
    leading = np.flatnonzero(device.launched & device.leads)
    # The work of a call that blocks is handed over when it begins, and so is that of one that waits for room.
    at = space.point.copy()
    held = blocks.row != NONE
    at[blocks.row[held]] = blocks.begin[held]
    found.add(Role.POINT, device.thread[leading], _outside(blocks, device.thread[leading], at[leading]), leading)
    numbers = np.arange(len(blocks))
    found.add(Role.BEGIN, blocks.thread, blocks.begin, numbers)
    found.add(Role.END, blocks.thread, blocks.end, numbers)
    numbers = len(blocks) + np.arange(len(full.row))
    found.add(Role.BEGIN, device.thread[full.row], device.called[full.row], numbers)
    found.add(Role.END, device.thread[full.row], device.returned[full.row], numbers)
    numbers = np.arange(len(woken.thread))
    found.add(Role.SLEEPS, woken.thread, np.maximum(woken.slept, windows.span[0]), numbers)
    found.add(Role.WAKES, woken.thread, woken.woke, numbers)
    found.add(Role.MARK, woken.by, _outside(blocks, woken.by, woken.at), numbers)
    marks = np.concatenate([ops.steps.start_ns, ops.steps.end_ns])
    on = np.concatenate([ops.steps.thread, ops.steps.thread])
    if not ops.steps.on_device:
        here = np.isin(on, threads)
        found.add(Role.MARK, on[here], marks[here], np.full(int(here.sum()), NONE))
    active = np.flatnonzero(trace.are(Category.OP, Category.LAUNCH, Category.RANGE))
    for thread in threads.tolist():
        its = active[trace.thread[active] == thread]
        if len(its):
            ends = np.asarray([trace.start_ns[its[0]], trace.end_ns[its].max()])
            found.add(Role.MARK, np.full(2, thread), ends, np.full(2, NONE))
    return found.build_points()


def _outside(blocks: Blocking, thread: Ints, at: Ints) -> Ints:
    """Moments within a call that blocks are moved to its beginning: between the two lies nothing else."""
    moved = at.copy()
    for number in np.unique(blocks.thread).tolist():
        its = np.flatnonzero(blocks.thread == number)
        mine = np.flatnonzero(thread == number)
        which = np.searchsorted(blocks.begin[its], at[mine], side="right") - 1
        inside = (which >= 0) & (at[mine] < blocks.end[its[np.maximum(which, 0)]])
        moved[mine[inside]] = blocks.begin[its[which[inside]]]
    return moved


def _host_edges(points: Points, blocks: Blocking, full: Throttled, woken: Handoffs, origin: int) -> list[Edges]:
    node = 1 + np.arange(len(points))
    follows = (
        np.concatenate(([False], points.thread[1:] == points.thread[:-1])) if len(points) else np.empty(0, np.bool_)
    )
    lag = np.diff(points.at_ns, prepend=points.at_ns[:1]).astype(np.float64)
    kind = np.full(len(points), Edge.HOST, np.int8)
    ends = points.role == Role.END
    own = np.concatenate([blocks.own_ns, full.own_ns])
    # Between the beginning and the end of a call only moments of work that it launches lie, moved to its beginning.
    lag[ends] = own[points.about[ends]]
    kind[ends] = Edge.CALL
    wakes = points.role == Role.WAKES
    lag[wakes] = 0.0
    chain = Edges(node[follows] - 1, node[follows], kind[follows], lag[follows], np.zeros(int(follows.sum()), np.bool_))
    by = points.find_rows(Role.WAKES, len(woken.thread))
    mark = np.full(len(woken.thread), -1, np.int64)
    if len(woken.thread):
        marks = np.flatnonzero((points.role == Role.MARK) & (points.about != NONE))
        mark[points.about[marks]] = marks
    handed = edges(Edge.HANDOFF, 1 + mark, 1 + by, woken.woke - woken.at)
    fresh = node[~follows & ~wakes]
    started = edges(Edge.START, np.zeros(len(fresh), np.int64), fresh, points.at_ns[fresh - 1] - origin)
    return [chain, handed, started]


def _device_edges(
    ops: Ops,
    device: Device,
    points: Points,
    space: Spacing,
    blocks: Blocking,
    full: Throttled,
    first_kernel: int,
    origin: int,
) -> list[Edges]:
    rows = np.arange(len(device))
    node = first_kernel + rows
    at = 1 + points.find_rows(Role.POINT, len(device))
    # The kernels of a graph hang on the launch of the first of them.
    launched = np.flatnonzero(device.launched)
    lead = _leaders(device)
    by_launch = edges(Edge.LAUNCH, at[lead[launched]], node[launched], space.latency[launched])
    held = blocks.row != NONE
    lag = by_launch.lag_ns
    place = np.full(len(device), -1)
    place[launched] = np.arange(len(launched))
    moved = blocks.row[held]
    lag[place[moved]] = np.minimum(space.latency[moved], np.maximum(device.begun[moved] - blocks.begin[held], 0))
    chained = np.flatnonzero(device.before != NONE)
    by_stream = edges(Edge.STREAM, node[device.before[chained]], node[chained], space.gap[chained], carries=True)
    waits = by_events(ops, device)
    explained = np.full(len(device), -np.inf)
    point_at = np.append(points.at_ns, 0)[points.find_rows(Role.POINT, len(device))]
    explained[launched] = point_at[lead[launched]] + lag
    np.maximum.at(explained, chained, device.ended[device.before[chained]] + space.gap[chained])
    np.maximum.at(explained, waits.target, device.ended[waits.source] + waits.lag_ns)
    more = inferred(ops, device, explained)
    lone = rows[(device.before == NONE) & ~device.launched]
    started = edges(Edge.START, np.zeros(len(lone), np.int64), node[lone], device.begun[lone] - origin)
    end_of = 1 + points.find_rows(Role.END, len(blocks) + len(full.row))
    known = np.flatnonzero(blocks.waits_for != NONE)
    to_end, to_begin = known[~blocks.at_begin[known]], known[blocks.at_begin[known]]
    after_end = edges(Edge.SYNC, node[blocks.waits_for[to_end]], end_of[to_end], blocks.tail_ns[to_end], carries=True)
    after_begin = edges(Edge.SYNC, node[blocks.waits_for[to_begin]], end_of[to_begin], blocks.tail_ns[to_begin])
    room = edges(Edge.QUEUE, node[full.waits_for], end_of[len(blocks) :], 0.0)
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


def _leaders(device: Device) -> Ints:
    """For each row the one that leads its launch."""
    leading = np.flatnonzero(device.launched & device.leads)
    order = leading[np.argsort(device.launch[leading], kind="stable")]
    result = np.arange(len(device))
    its = np.flatnonzero(device.launched)
    result[its] = order[np.searchsorted(device.launch[order], device.launch[its])]
    return result
