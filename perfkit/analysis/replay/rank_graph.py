"""A rank's graph and its changes as columns, small enough to send for a joint replay."""

from typing import NamedTuple

import numpy as np

from perfkit.analysis.replay.dependency_graph import DependencyGraph
from perfkit.analysis.replay.edges import Edges, Floats
from perfkit.analysis.replay.graph_changes import ModifiedGraph, copy_unmodified
from perfkit.analysis.replay.step_nodes import StepNodes, find_step_nodes
from perfkit.trace.model import Ints


class GraphDelta(NamedTuple):
    """The differences of a change from the recording: durations of some nodes, lags of some edges."""

    node: Ints
    duration_ns: Floats
    edge: Ints
    lag_ns: Floats


class RankGraph(NamedTuple):
    """The columns of a `DependencyGraph`. `begins_ns` is its beginning on the rank's clock, `place` the order of its
    nodes; `steps` is None without marked steps."""

    begins_ns: int
    at_ns: Ints
    place: Ints
    duration_ns: Ints
    edges: Edges
    first_kernel: int
    steps: StepNodes | None

    def __len__(self) -> int:
        return len(self.at_ns)

    def apply_delta(self, changed: GraphDelta | None) -> ModifiedGraph:
        """The whole of a change; None leaves all as recorded."""
        result = ModifiedGraph(self.duration_ns.astype(np.float64), self.edges.lag_ns.copy())
        if changed is not None:
            result.duration_ns[changed.node] = changed.duration_ns
            result.lag_ns[changed.edge] = changed.lag_ns
        return result


def extract_rank_graph(graph: DependencyGraph) -> RankGraph:
    """The columns of a graph."""
    return RankGraph(
        graph.ops.trace.base_ns + graph.origin_ns,
        graph.at_ns,
        graph.order.place,
        graph.duration_ns,
        graph.edges,
        graph.first_kernel,
        find_step_nodes(graph),
    )


def compute_delta(graph: DependencyGraph, change: ModifiedGraph) -> GraphDelta:
    """The nodes and edges that a change modifies."""
    same = copy_unmodified(graph)
    node = np.flatnonzero(change.duration_ns != same.duration_ns)
    edge = np.flatnonzero(change.lag_ns != same.lag_ns)
    return GraphDelta(node, change.duration_ns[node], edge, change.lag_ns[edge])
