"""The time that a change removes from a graph: no gain of it is larger, except by waits that it leaves out."""

from collections.abc import Sequence

import numpy as np

from perfkit.analysis.model.replay import TouchedTime
from perfkit.analysis.replay.dependency_graph import DependencyGraph
from perfkit.analysis.replay.edges import EdgeKind
from perfkit.analysis.replay.graph_changes import ModifiedGraph
from perfkit.analysis.replay.host_points import PointRole

_GAPS = (EdgeKind.START, EdgeKind.LAUNCH, EdgeKind.STREAM, EdgeKind.EVENT, EdgeKind.INFERRED)
_CPU = (EdgeKind.HOST, EdgeKind.CALL)


def measure_touched_time(graph: DependencyGraph, change: ModifiedGraph, parts: int) -> TouchedTime:
    """The time that a change removes, per one of `parts` steps."""
    table, blocking = graph.edges, graph.blocking
    removed = np.isneginf(change.lag_ns) & np.isfinite(table.lag_ns)
    less = np.where(removed, 0.0, table.lag_ns - change.lag_ns)

    def sum_s(kinds: Sequence[EdgeKind]) -> float:
        return float(less[np.isin(table.kind, kinds)].sum()) / 1e9 / parts

    ends = 1 + graph.points.find_rows(PointRole.END, len(blocking) + len(graph.throttled.row))[: len(blocking)]
    returning = np.isin(ends, table.target[removed & (table.kind == EdgeKind.SYNC)])
    waited_ns = (blocking.end - blocking.begin - blocking.own_ns)[returning]
    return TouchedTime(
        kernels_s=float((graph.duration_ns - change.duration_ns).sum()) / 1e9 / parts,
        gaps_s=sum_s(_GAPS),
        cpu_s=sum_s(_CPU),
        waits_s=float(waited_ns.sum()) / 1e9 / parts,
    )
