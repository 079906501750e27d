"""A change row by row: the fraction of time of each piece of work, and the removed CPU time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.analysis.replay.dependency_graph import DependencyGraph
from perfkit.analysis.replay.edges import EdgeKind, Flags, Floats
from perfkit.analysis.replay.graph_changes import (
    ModifiedGraph,
    copy_unmodified,
    drop_waits,
    free_launches,
    remove_launches,
    scale_work,
    shrink_host,
)
from perfkit.analysis.replay.host_points import PointRole
from perfkit.analysis.replay.replay_work import ReplayWork
from perfkit.analysis.trace.time.intervals import Intervals, is_inside, join_intervals, merge_intervals
from perfkit.trace.model import Ints

_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class ChangeEffect:
    """Columns over the pieces of `ReplayWork`, events of the trace, and spans of its time.

    Attributes:
        takes: the part of its time that each piece still takes.
        joins: pieces without a launch of their own: they begin behind what is before them on their stream, and what the
            host did to launch them goes.
        gone: events of the host whose time goes; a call that waits does not.
        returns: calls that do not wait any more.
        idle: when the host does nothing else than what goes.
        launched: when launching takes the host no time, `started` when kernels begin as soon as they can.
    """

    takes: Floats
    joins: Flags
    gone: Ints
    returns: Ints
    idle: Intervals
    launched: Intervals
    started: Intervals


def merge_effects(effects: Sequence[ChangeEffect]) -> ChangeEffect:
    """Merge effects: each piece takes the least time that any of them leaves."""
    first, *others = effects
    for other in others:
        first = ChangeEffect(
            np.minimum(first.takes, other.takes),
            first.joins | other.joins,
            np.union1d(first.gone, other.gone),
            np.union1d(first.returns, other.returns),
            join_intervals(first.idle, other.idle),
            join_intervals(first.launched, other.launched),
            join_intervals(first.started, other.started),
        )
    return first


def apply_effect(graph: DependencyGraph, work: ReplayWork, effect: ChangeEffect) -> ModifiedGraph:
    """The graph with an effect."""
    result = copy_unmodified(graph)
    changed = effect.takes != 1.0
    if changed.any():
        scale_work(graph, work, result, changed, effect.takes[changed])
    trace = graph.ops.trace
    events = remove_launches(graph, result, np.flatnonzero(effect.joins)) if work.on_device else _NONE
    every = np.concatenate([events, effect.gone])
    on = trace.thread[every]
    for thread in np.unique(graph.points.thread).tolist():
        its = every[on == thread]
        spans = join_intervals(merge_intervals(trace.start_ns[its], trace.end_ns[its]), effect.idle)
        if len(spans):
            shrink_host(graph, result, thread, spans, 0.0)
    event = graph.blocking.event
    drop_waits(graph, result, np.flatnonzero(np.isin(event, effect.gone)), gone=True)
    drop_waits(graph, result, np.flatnonzero(np.isin(event, effect.returns)))
    table, at = graph.edges, graph.at_ns[graph.edges.target] + graph.origin_ns
    if len(effect.launched):
        free_launches(graph, result, is_inside(at, effect.launched), (PointRole.POINT, PointRole.MARK))
    if len(effect.started):
        within = is_inside(at, effect.started) & np.isfinite(result.lag_ns)
        within &= np.isin(table.kind, (EdgeKind.STREAM, EdgeKind.LAUNCH))
        result.lag_ns[within] = np.minimum(result.lag_ns[within], 0.0)
    return result
