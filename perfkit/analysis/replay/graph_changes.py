"""Applies a what-if to a graph: changed durations, changed CPU time, removed edges."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from perfkit.analysis.replay.dependency_graph import DependencyGraph
from perfkit.analysis.replay.edges import EdgeKind, Flags, Floats
from perfkit.analysis.replay.host_points import PointRole
from perfkit.analysis.replay.replay_work import ReplayWork
from perfkit.analysis.replay.what_if_syntax import RANGE, WhatIf
from perfkit.analysis.trace.time.intervals import Intervals, is_inside, merge_intervals
from perfkit.core.errors import UsageError
from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import compute_depths, compute_parents
from perfkit.trace.model import NONE, Category, Ints


class RemovedTime(NamedTuple):
    """From each moment of `at_ns` to the next, a `share` of the time is removed; nothing before and after."""

    at_ns: Ints
    share: Floats

    def sum_until(self, times: Ints) -> Floats:
        """The time removed up to each time."""
        if not len(self.at_ns):
            return np.zeros(len(times))
        sums = np.concatenate(([0.0], np.cumsum(np.diff(self.at_ns) * self.share[:-1])))
        result: Floats = np.interp(times, self.at_ns, sums)
        return result

    def get_share_at(self, times: Ints) -> Floats:
        """The share at each time."""
        place = np.searchsorted(self.at_ns, times, side="right") - 1
        result: Floats = np.append(self.share, 0.0)[place]  # before the first (-1) it is the last entry
        return result

    def combine_with(self, other: "RemovedTime") -> "RemovedTime":
        """Combine with another change, which takes its share of the remaining time."""
        at_ns = np.union1d(self.at_ns, other.at_ns)
        return RemovedTime(at_ns, 1.0 - (1.0 - self.get_share_at(at_ns)) * (1.0 - other.get_share_at(at_ns)))


NOTHING = RemovedTime(np.empty(0, np.int64), np.empty(0))


def build_removed_time(begin: Ints, end: Ints, share: Floats) -> RemovedTime:
    """A share of each span of one thread goes (below 0: it takes longer); where several overlap, the largest."""
    order = np.lexsort((-end, begin))
    begin, end, share = begin[order], end[order], share[order]
    parent = compute_parents(np.zeros(len(begin), np.int32), begin, end)
    depth = compute_depths(parent)
    most = share.copy()
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        most[rows] = np.maximum(most[rows], most[parent[rows]])
    more = most - np.append(most, 0.0)[parent]  # without a parent (-1) it is the last entry
    edges = np.concatenate([begin, end])
    at_ns, place = np.unique(edges, return_inverse=True)
    change = np.bincount(place.reshape(-1), weights=np.concatenate([more, -more]), minlength=len(at_ns))
    return RemovedTime(at_ns, np.minimum(np.cumsum(change), 1.0))


# A graph's kernels follow each other more closely, and its launch takes about this.
_GRAPH_GAP_NS, _GRAPH_LAUNCH_NS = 1_000, 10_000
# Between launches further apart than this, the CPU did other work, which graphs do not remove.
_NOT_DISPATCH_NS = 1_000_000


@dataclass(frozen=True)
class ModifiedGraph:
    """The duration of each node and the lag of each edge (-inf: removed).

    `gone` is what of each thread's time changes have taken from its edges already.
    """

    duration_ns: Floats
    lag_ns: Floats
    gone: dict[int, RemovedTime] = field(default_factory=dict)

    def compute_weights(self, graph: DependencyGraph) -> Floats:
        table = graph.edges
        return self.lag_ns + np.where(table.carries, self.duration_ns[table.source], 0.0)


def copy_unmodified(graph: DependencyGraph) -> ModifiedGraph:
    """The graph as recorded."""
    return ModifiedGraph(graph.duration_ns.astype(np.float64), graph.edges.lag_ns.copy())


def apply_what_if(graph: DependencyGraph, work: ReplayWork, change: WhatIf) -> ModifiedGraph:
    """Apply a what-if's changes. `UsageError` names parts without a match in the trace."""
    result = copy_unmodified(graph)
    for what, factor in change.factors:
        if what.startswith(RANGE):
            _scale_ranges(graph, result, what.removeprefix(RANGE), factor)
            continue
        chosen = work.select_work(what)
        if not chosen.any():
            raise UsageError(f"--what-if {what}: no match in the trace")
        scale_work(graph, work, result, chosen, factor)
    for what in change.fused:
        _fuse_neighbors(graph, work, result, work.select_work(what))
    if change.without_syncs:
        _drop_syncs(graph, result)
    if change.graphs:
        _launch_as_graphs(graph, result)
    if change.host != 1.0:
        result.lag_ns[np.isin(graph.edges.kind, (EdgeKind.HOST, EdgeKind.CALL))] *= change.host
    return result


def scale_work(
    graph: DependencyGraph, work: ReplayWork, result: ModifiedGraph, chosen: Flags, factor: Floats | float
) -> None:
    """Scale the time of the chosen pieces by `factor`: kernels on a device, ops without one."""
    if work.on_device:
        result.duration_ns[graph.first_kernel :][chosen] *= factor
        return
    trace, events = graph.ops.trace, graph.ops.event
    rows = np.flatnonzero(chosen)
    less = 1.0 - np.broadcast_to(np.asarray(factor, np.float64), (len(rows),))
    for thread in np.unique(trace.thread[events[rows]]).tolist():
        mine = trace.thread[events[rows]] == thread
        its = events[rows[mine]]
        _shorten_thread(graph, result, thread, build_removed_time(trace.start_ns[its], trace.end_ns[its], less[mine]))


def _scale_ranges(graph: DependencyGraph, result: ModifiedGraph, pattern: str, factor: float) -> None:
    """Scale the time within some ranges by `factor`: CPU time, waits and launched work."""
    trace, device, blocks = graph.ops.trace, graph.device, graph.blocking
    ranges = trace.select_events(Category.RANGE, Category.OP)  # old versions wrote ranges as ops
    ranges = ranges[mark_named(trace, ranges, lambda name: fnmatchcase(name, pattern))]
    if not len(ranges):
        raise UsageError(f"--what-if {RANGE}{pattern}: no matching range in the trace")
    for thread in np.unique(trace.thread[ranges]).tolist():
        mine = ranges[trace.thread[ranges] == thread]
        spans = merge_intervals(trace.start_ns[mine], trace.end_ns[mine])
        shrink_host(graph, result, thread, spans, factor)
        kernels = device.launched & (device.thread == thread) & is_inside(device.called, spans)
        result.duration_ns[graph.first_kernel :][kernels] *= factor
        if factor == 0:
            within = (blocks.thread == thread) & is_inside(blocks.begin, spans)
            drop_waits(graph, result, np.flatnonzero(within), gone=True)


def shrink_host(graph: DependencyGraph, result: ModifiedGraph, thread: int, spans: Intervals, factor: float) -> None:
    """Scale the CPU time of a thread within `spans` by `factor`."""
    _shorten_thread(
        graph, result, thread, build_removed_time(spans[:, 0], spans[:, 1], np.full(len(spans), 1.0 - factor))
    )


def _shorten_thread(graph: DependencyGraph, result: ModifiedGraph, thread: int, gone: RemovedTime) -> None:
    """Remove CPU time of a thread, in addition to earlier removals."""
    table, points = graph.edges, graph.points
    before = result.gone.get(thread, NOTHING)
    result.gone[thread] = after = before.combine_with(gone)
    target = table.target - 1
    rows = np.flatnonzero((table.kind == EdgeKind.HOST) & (result.lag_ns > 0))
    rows = rows[points.thread[target[rows]] == thread]
    begin, end = points.at_ns[target[rows] - 1], points.at_ns[target[rows]]
    less = after.sum_until(end) - after.sum_until(begin) - before.sum_until(end) + before.sum_until(begin)
    result.lag_ns[rows] = np.maximum(result.lag_ns[rows] - less, 0.0)


def _fuse_neighbors(graph: DependencyGraph, work: ReplayWork, result: ModifiedGraph, chosen: Flags) -> None:
    """Run neighbors in launch order as one kernel, as long as the longest, for the op of the first."""
    if not work.on_device:
        raise UsageError("--what-if fuse=: only kernels can be fused, and the trace has none")
    calls, follows = _find_following(graph, chosen)
    group = np.cumsum(~follows) - 1
    longest = np.zeros(int(group[-1]) + 1 if len(group) else 0)
    kernel = graph.first_kernel + calls
    np.maximum.at(longest, group, result.duration_ns[kernel])
    several = np.bincount(group) > 1 if len(group) else np.empty(0, np.bool_)
    heads = ~follows & several[group]
    result.duration_ns[kernel[heads]] = longest[group[heads]]
    result.duration_ns[kernel[follows]] = 0.0
    trace = graph.ops.trace
    events = remove_launches(graph, result, calls[follows])
    for thread in np.unique(trace.thread[events]).tolist():
        its = events[trace.thread[events] == thread]
        shrink_host(graph, result, thread, merge_intervals(trace.start_ns[its], trace.end_ns[its]), 0.0)


def find_followers(graph: DependencyGraph, chosen: Flags) -> Ints:
    """Those of some kernels that are launched right after another of them, with nothing in between."""
    calls, follows = _find_following(graph, chosen)
    return calls[follows]


def _find_following(graph: DependencyGraph, chosen: Flags) -> tuple[Ints, Flags]:
    """Kernels in the order of launches, thread by thread, and which of them follow a chosen one and are chosen."""
    device = graph.device
    calls = device.by_call
    calls = calls[np.argsort(device.thread[calls], kind="stable")]
    plain = chosen[calls]
    place = np.stack([device.thread[calls], device.lane[calls]])
    same = np.concatenate(([False], (place[:, 1:] == place[:, :-1]).all(axis=0)))[: len(calls)]
    follows: Flags = plain & same & np.concatenate(([False], plain[:-1]))[: len(calls)]
    return calls, follows & ~_is_blocked_between(graph, calls)


def remove_launches(graph: DependencyGraph, result: ModifiedGraph, rows: Ints) -> Ints:
    """Start some kernels after their predecessor on the stream, without a launch of their own.

    The events of the host that launched them, and nothing else: its time is left as it is.
    """
    table, device, ops = graph.edges, graph.device, graph.ops
    chosen = np.zeros(len(graph), np.bool_)
    chosen[graph.first_kernel + rows] = True
    behind = chosen[table.target] & (table.kind == EdgeKind.STREAM)
    follows = np.zeros(len(graph), np.bool_)
    follows[table.target[behind]] = True
    result.lag_ns[behind] = np.minimum(result.lag_ns[behind], 0.0)
    result.lag_ns[follows[table.target] & (table.kind == EdgeKind.LAUNCH)] = -np.inf
    # A graph's launch starts others, too.
    alone = device.launched[rows] & (np.bincount(device.launch[device.launched], minlength=1)[device.launch[rows]] == 1)
    rows = rows[alone]
    owner = ops.kernel_owner[rows]
    events: Ints = np.unique(np.where(owner == NONE, device.launch[rows], np.append(ops.event, 0)[owner]))
    return events


def _is_blocked_between(graph: DependencyGraph, calls: Ints) -> Flags:
    """True if a blocking call, an event call, a step mark or a hand-off lies between a launch and its predecessor."""
    trace, points = graph.ops.trace, graph.points
    events = trace.select_events(Category.LAUNCH)
    events = events[mark_named(trace, events, lambda name: "Event" in name)]
    marks = points.at_ns[np.isin(points.role, (PointRole.MARK, PointRole.WAKES))]
    between = np.sort(np.concatenate([graph.blocking.begin, trace.start_ns[events], marks]))
    before = np.searchsorted(between, graph.device.called[calls])
    result: Flags = np.concatenate(([True], before[1:] != before[:-1])) if len(calls) else np.empty(0, np.bool_)
    return result


def _drop_syncs(graph: DependencyGraph, result: ModifiedGraph) -> None:
    """Return from synchronizing calls at once."""
    drop_waits(graph, result, np.flatnonzero(graph.blocking.row == NONE), gone=True)


def drop_waits(graph: DependencyGraph, result: ModifiedGraph, calls: Ints, *, gone: bool = False) -> None:
    """Remove the waits of some blocking calls; `gone`: their own time, too."""
    table, points = graph.edges, graph.points
    ends = 1 + points.find_rows(PointRole.END, len(graph.blocking) + len(graph.throttled.row))[calls]
    to_end = np.isin(table.target, ends)
    result.lag_ns[to_end & (table.kind == EdgeKind.SYNC)] = -np.inf
    if gone:
        result.lag_ns[to_end & (table.kind == EdgeKind.CALL)] = 0.0


def _launch_as_graphs(graph: DependencyGraph, result: ModifiedGraph) -> None:
    """Launch work by graphs: CPU time between launches disappears, except for one launch per segment."""
    table, points = graph.edges, graph.points
    everywhere = np.ones(len(table), np.bool_)
    free_launches(graph, result, everywhere)
    rows, target = _select_host_edges(graph, everywhere)
    launches = points.role == PointRole.POINT
    first = launches[target] & ~launches[target - 1]
    result.lag_ns[rows[first]] = np.maximum(result.lag_ns[rows[first]], _GRAPH_LAUNCH_NS)
    gaps = (table.kind == EdgeKind.STREAM) & np.isfinite(result.lag_ns)
    result.lag_ns[gaps] = np.minimum(result.lag_ns[gaps], _GRAPH_GAP_NS)


def free_launches(
    graph: DependencyGraph, result: ModifiedGraph, chosen: Flags, roles: Sequence[PointRole] = (PointRole.POINT,)
) -> None:
    """Remove the CPU time between two launches (moments of these roles) for some edges, unless something else happens
    there."""
    launches = np.isin(graph.points.role, roles)
    rows, target = _select_host_edges(graph, chosen)
    between = launches[target] & launches[target - 1] & (result.lag_ns[rows] < _NOT_DISPATCH_NS)
    result.lag_ns[rows[between]] = 0.0


def _select_host_edges(graph: DependencyGraph, chosen: Flags) -> tuple[Ints, Ints]:
    """Select the CPU time edges, and the moments that they lead to."""
    table, points = graph.edges, graph.points
    target = table.target - 1
    rows = np.flatnonzero(chosen & (table.kind == EdgeKind.HOST) & (target >= 0) & (target < len(points)))
    return rows, target[rows]
