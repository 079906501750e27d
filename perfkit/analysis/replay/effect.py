"""A change given row by row: which pieces of work take which part of their time, and what of the host's work goes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.analysis.replay.edges import Edge, Flags, Floats
from perfkit.analysis.replay.graph import Graph
from perfkit.analysis.replay.modify import Modified, drop_waits, free_launches, join, scale, shrink_host, unmodified
from perfkit.analysis.replay.points import Role
from perfkit.analysis.replay.work import Work
from perfkit.analysis.trace.intervals import Intervals, inside, joined, union
from perfkit.trace.read import Ints

_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class Effect:
    """Columns over the pieces of `Work`, events of the trace, and spans of its time.

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


def together(effects: Sequence[Effect]) -> Effect:
    """All of some effects at once: of each piece the least time that any of them leaves it."""
    first, *others = effects
    for other in others:
        first = Effect(
            np.minimum(first.takes, other.takes),
            first.joins | other.joins,
            np.union1d(first.gone, other.gone),
            np.union1d(first.returns, other.returns),
            joined(first.idle, other.idle),
            joined(first.launched, other.launched),
            joined(first.started, other.started),
        )
    return first


def affected(graph: Graph, work: Work, effect: Effect) -> Modified:
    """The graph with an effect."""
    result = unmodified(graph)
    changed = effect.takes != 1.0
    if changed.any():
        scale(graph, work, result, changed, effect.takes[changed])
    trace = graph.ops.trace
    events = join(graph, result, np.flatnonzero(effect.joins)) if work.on_device else _NONE
    every = np.concatenate([events, effect.gone])
    on = trace.thread[every]
    for thread in np.unique(graph.points.thread).tolist():
        its = every[on == thread]
        spans = joined(union(trace.start_ns[its], trace.end_ns[its]), effect.idle)
        if len(spans):
            shrink_host(graph, result, thread, spans, 0.0)
    event = graph.blocking.event
    drop_waits(graph, result, np.flatnonzero(np.isin(event, effect.gone)), gone=True)
    drop_waits(graph, result, np.flatnonzero(np.isin(event, effect.returns)))
    table, at = graph.edges, graph.at_ns[graph.edges.target] + graph.origin_ns
    if len(effect.launched):
        free_launches(graph, result, inside(at, effect.launched), (Role.POINT, Role.MARK))
    if len(effect.started):
        within = inside(at, effect.started) & np.isfinite(result.lag_ns)
        within &= np.isin(table.kind, (Edge.STREAM, Edge.LAUNCH))
        result.lag_ns[within] = np.minimum(result.lag_ns[within], 0.0)
    return result
