"""A what-if applied to a graph: other durations, other host time, edges that no longer hold."""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.replay.change import WhatIf
from perfkit.analysis.replay.edges import Edge, Flags, Floats
from perfkit.analysis.replay.graph import Graph
from perfkit.analysis.replay.points import Role
from perfkit.analysis.replay.work import Work
from perfkit.analysis.trace.intervals import Intervals, covered, union
from perfkit.errors import UsageError
from perfkit.trace.naming import named
from perfkit.trace.read import NONE, Category, Ints

# A graph's kernels follow each other more closely, and its launch takes about this.
_GRAPH_GAP_NS, _GRAPH_LAUNCH_NS = 1_000, 10_000
# Between launches further apart than this the host did something that no graph takes away.
_NOT_DISPATCH_NS = 1_000_000


@dataclass(frozen=True)
class Modified:
    """Of each node its duration, of each edge of the graph its lag (-inf: it no longer holds)."""

    duration_ns: Floats
    lag_ns: Floats

    def weights(self, graph: Graph) -> Floats:
        table = graph.edges
        return self.lag_ns + np.where(table.carries, self.duration_ns[table.source], 0.0)


def unmodified(graph: Graph) -> Modified:
    """As recorded."""
    return Modified(graph.duration_ns.astype(np.float64), graph.edges.lag_ns.copy())


def modified(graph: Graph, work: Work, change: WhatIf) -> Modified:
    """With a what-if's changes. `UsageError` names what fits nothing in the trace."""
    result = unmodified(graph)
    for what, factor in change.factors:
        chosen = work.fits(what)
        if not chosen.any():
            raise UsageError(f"--what-if {what}: nothing in the trace has this name")
        scale(graph, work, result, chosen, factor)
    for what in change.fused:
        _fuse(graph, work, result, work.fits(what))
    if change.without_syncs:
        _drop_syncs(graph, result)
    if change.graphs:
        _capture(graph, result)
    if change.host != 1.0:
        result.lag_ns[np.isin(graph.edges.kind, (Edge.HOST, Edge.CALL))] *= change.host
    return result


def scale(graph: Graph, work: Work, result: Modified, chosen: Flags, factor: Floats | float) -> None:
    """Let the chosen pieces take `factor` of their time: kernels on a device, without one the ops themselves."""
    if work.on_device:
        result.duration_ns[graph.first_kernel :][chosen] *= factor
        return
    trace, events = graph.ops.trace, graph.ops.event
    each = np.broadcast_to(np.asarray(factor, np.float64), (int(chosen.sum()),))
    rows = np.flatnonzero(chosen)
    for thread in np.unique(trace.thread[events[rows]]).tolist():
        mine = trace.thread[events[rows]] == thread
        for value in np.unique(each[mine]).tolist():
            its = events[rows[mine & (each == value)]]
            shrink_host(graph, result, thread, union(trace.start_ns[its], trace.end_ns[its]), value)


def shrink_host(graph: Graph, result: Modified, thread: int, spans: Intervals, factor: float) -> None:
    """Let what a thread did within `spans` take `factor` of its time."""
    table, points = graph.edges, graph.points
    target = table.target - 1
    rows = np.flatnonzero((table.kind == Edge.HOST) & (result.lag_ns > 0))
    rows = rows[points.thread[target[rows]] == thread]
    begin, end = points.at_ns[target[rows] - 1], points.at_ns[target[rows]]
    less = covered(begin, end, spans) * (1.0 - factor)
    result.lag_ns[rows] = np.maximum(result.lag_ns[rows] - less, 0.0)


def _fuse(graph: Graph, work: Work, result: Modified, chosen: Flags) -> None:
    """Let neighbours in the order of launches run as one kernel, as long as the longest, of the first one's op."""
    device, ops = graph.device, graph.ops
    if not work.on_device:
        raise UsageError("--what-if fuse=: kernels can be fused, and the trace has none")
    calls = device.by_call
    calls = calls[np.argsort(device.thread[calls], kind="stable")]
    plain = chosen[calls]
    place = np.stack([device.thread[calls], device.lane[calls]])
    same = np.concatenate(([False], (place[:, 1:] == place[:, :-1]).all(axis=0)))[: len(calls)]
    follows = plain & same & np.concatenate(([False], plain[:-1])) & ~_blocked_between(graph, calls)
    group = np.cumsum(~follows) - 1
    longest = np.zeros(int(group[-1]) + 1 if len(group) else 0)
    kernel = graph.first_kernel + calls
    np.maximum.at(longest, group, result.duration_ns[kernel])
    several = np.bincount(group) > 1 if len(group) else np.empty(0, np.bool_)
    heads = ~follows & several[group]
    result.duration_ns[kernel[heads]] = longest[group[heads]]
    gone = kernel[follows]
    result.duration_ns[gone] = 0.0
    table = graph.edges
    to_gone = np.isin(table.target, gone)
    result.lag_ns[to_gone & (table.kind == Edge.LAUNCH)] = -np.inf
    result.lag_ns[to_gone & (table.kind == Edge.STREAM)] = 0.0
    trace = ops.trace
    rows = calls[follows]
    owner = ops.kernel_owner[rows]
    event = np.where(owner == NONE, device.launch[rows], np.append(ops.event, 0)[owner])
    for thread in np.unique(device.thread[rows]).tolist():
        its = event[device.thread[rows] == thread]
        shrink_host(graph, result, thread, union(trace.start_ns[its], trace.end_ns[its]), 0.0)


def _blocked_between(graph: Graph, calls: Ints) -> Flags:
    """Whether a call that blocks or one about an event lies between each launch and the one before it."""
    trace = graph.ops.trace
    events = trace.of(Category.LAUNCH)
    events = events[named(trace, events, lambda name: "Event" in name)]
    between = np.sort(np.concatenate([graph.blocking.begin, trace.start_ns[events]]))
    before = np.searchsorted(between, graph.device.called[calls])
    result: Flags = np.concatenate(([True], before[1:] != before[:-1])) if len(calls) else np.empty(0, np.bool_)
    return result


def _drop_syncs(graph: Graph, result: Modified) -> None:
    """Let calls that only wait return at once."""
    table, points = graph.edges, graph.points
    waits = np.flatnonzero(graph.blocking.row == NONE)
    ends = 1 + points.rows_of(Role.END, len(graph.blocking) + len(graph.throttled.row))[waits]
    to_end = np.isin(table.target, ends)
    result.lag_ns[to_end & (table.kind == Edge.SYNC)] = -np.inf
    result.lag_ns[to_end & (table.kind == Edge.CALL)] = 0.0


def _capture(graph: Graph, result: Modified) -> None:
    """Let work be launched by graphs: what the host does between launches goes, but for one launch a stretch."""
    table, points = graph.edges, graph.points
    target = table.target - 1
    is_host = (table.kind == Edge.HOST) & (target >= 0) & (target < len(points))
    rows = np.flatnonzero(is_host)
    launches = points.role == Role.POINT
    between = launches[target[rows]] & launches[target[rows] - 1] & (result.lag_ns[rows] < _NOT_DISPATCH_NS)
    result.lag_ns[rows[between]] = 0.0
    first = launches[target[rows]] & ~launches[target[rows] - 1]
    result.lag_ns[rows[first]] = np.maximum(result.lag_ns[rows[first]], _GRAPH_LAUNCH_NS)
    gaps = (table.kind == Edge.STREAM) & np.isfinite(result.lag_ns)
    result.lag_ns[gaps] = np.minimum(result.lag_ns[gaps], _GRAPH_GAP_NS)
