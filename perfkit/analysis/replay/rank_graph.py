"""What of a rank's graph others are replayed with, and changes of it: small enough to be sent to where they meet."""

from typing import NamedTuple

import numpy as np

from perfkit.analysis.replay.edges import Edges, Floats
from perfkit.analysis.replay.graph import Graph
from perfkit.analysis.replay.modify import Modified, unmodified
from perfkit.analysis.replay.steps import StepNodes, step_nodes
from perfkit.trace.read import Ints


class Changed(NamedTuple):
    """Where a change differs from the recording: durations of some nodes, lags of some edges."""

    node: Ints
    duration_ns: Floats
    edge: Ints
    lag_ns: Floats


class RankGraph(NamedTuple):
    """The columns of a `Graph`. `begins_ns` is its beginning by the rank's clock, `place` the order of its nodes,
    `steps` is None where the host marks none."""

    begins_ns: int
    at_ns: Ints
    place: Ints
    duration_ns: Ints
    edges: Edges
    first_kernel: int
    steps: StepNodes | None

    def __len__(self) -> int:
        return len(self.at_ns)

    def apply_delta(self, changed: Changed | None) -> Modified:
        """The whole of a change; None leaves all as recorded."""
        result = Modified(self.duration_ns.astype(np.float64), self.edges.lag_ns.copy())
        if changed is not None:
            result.duration_ns[changed.node] = changed.duration_ns
            result.lag_ns[changed.edge] = changed.lag_ns
        return result


def rank_graph(graph: Graph) -> RankGraph:
    """The columns of a graph."""
    return RankGraph(
        graph.ops.trace.base_ns + graph.origin_ns,
        graph.at_ns,
        graph.order.place,
        graph.duration_ns,
        graph.edges,
        graph.first_kernel,
        step_nodes(graph),
    )


def changed(graph: Graph, change: Modified) -> Changed:
    """What of a graph a change differs in."""
    same = unmodified(graph)
    node = np.flatnonzero(change.duration_ns != same.duration_ns)
    edge = np.flatnonzero(change.lag_ns != same.lag_ns)
    return Changed(node, change.duration_ns[node], edge, change.lag_ns[edge])
