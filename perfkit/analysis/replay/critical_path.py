"""The critical path of a step: from its end back along the dependency that each thing waited for last."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.replay import BEFORE, GAPS, HOST, LAUNCH, WAITS
from perfkit.analysis.model.time_split import COMMUNICATION
from perfkit.analysis.replay.dependency_graph import DependencyGraph
from perfkit.analysis.replay.edges import EdgeKind, Floats
from perfkit.analysis.replay.graph_changes import ModifiedGraph
from perfkit.analysis.replay.replay_work import ReplayWork
from perfkit.trace.model import NONE, Ints

Number = TypeVar("Number", bound=np.generic)

OF_EDGE = {
    EdgeKind.START: BEFORE,
    EdgeKind.HOST: HOST,
    EdgeKind.CALL: HOST,
    EdgeKind.LAUNCH: LAUNCH,
    EdgeKind.STREAM: GAPS,
    EdgeKind.EVENT: WAITS,
    EdgeKind.INFERRED: WAITS,
    EdgeKind.SYNC: WAITS,
    EdgeKind.QUEUE: WAITS,
    EdgeKind.HANDOFF: WAITS,
    EdgeKind.PEERS: COMMUNICATION,
}


class CriticalPath(NamedTuple):
    """`seconds` of each kind of work along the path, which sum to the span; `kernels` are rows of the device on it.

    `edges` are rows of the graph's table, in the order of time; the path ends with the node `last`.
    """

    seconds: dict[str, float]
    kernels: Ints
    edges: Ints
    last: int


def find_critical_path(graph: DependencyGraph, work: ReplayWork, change: ModifiedGraph, times: Floats) -> CriticalPath:
    """The path of a simulation (`times` of its places) that ended with `change`."""
    order, table = graph.order, graph.edges
    weight = np.append(change.compute_weights(graph), 0.0)
    ends = times[order.place] + change.duration_ns
    last = int(ends.argmax())
    by_first = times[order.first] + weight[order.first_edge] >= times[order.second] + weight[order.second_edge]
    before = np.where(by_first, order.first, order.second)
    path = _walk_back(before.tolist(), int(order.place[last]))
    edge = np.where(by_first[path], order.first_edge[path], order.second_edge[path])
    path, edge = path[edge != NONE], edge[edge != NONE]
    came = before[path]
    nodes = np.append(table.source[edge], last)
    runs = np.append(table.carries[edge], last >= graph.first_kernel)
    ran = times[np.append(came, order.place[last])] + np.where(runs, change.duration_ns[nodes], 0.0)
    # Kernels of a stream can overlap: each piece counts from the end of all before it.
    path_ns = np.diff(np.maximum.accumulate(interleave_pieces(ran, times[path])), prepend=0.0)
    of_nodes, of_edges = path_ns[::2], path_ns[1::2]
    spent: dict[str, float] = {}
    of_kind = table.kind[edge]
    for kind in np.unique(of_kind).tolist():
        name = OF_EDGE[EdgeKind(kind)]
        spent[name] = spent.get(name, 0.0) + float(of_edges[of_kind == kind].sum()) / 1e9
    kernels = nodes[runs] - graph.first_kernel
    kinds = work.kinds[kernels] if work.on_device else np.empty(0, object)
    of_kernels = of_nodes[runs]
    for name in sorted(set(kinds.tolist())):
        spent[name] = spent.get(name, 0.0) + float(of_kernels[kinds == name].sum()) / 1e9
    return CriticalPath(spent, np.unique(kernels), edge, last)


def _walk_back(before: list[int], place: int) -> Ints:
    """The places from the beginning to this one, without the beginning."""
    walked: list[int] = []
    walk = walked.append
    while place:
        walk(place)
        place = before[place]
    return np.asarray(walked[::-1], np.int64)


def interleave_pieces(nodes: NDArray[Number], edges: NDArray[Number]) -> NDArray[Number]:
    """A column of a path's pieces in the order of time: the node that each edge leaves, the edge, at last a node."""
    column = np.empty(len(nodes) + len(edges), nodes.dtype)
    column[::2], column[1::2] = nodes, edges
    return column
