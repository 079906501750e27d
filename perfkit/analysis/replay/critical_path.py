"""What a step's length is made of: from its end back along what each thing waited for last."""

from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.replay import BEFORE, GAPS, HOST, LAUNCH, WAITS
from perfkit.analysis.model.time_split import COMMUNICATION
from perfkit.analysis.replay.edges import Edge, Floats
from perfkit.analysis.replay.graph import Graph
from perfkit.analysis.replay.modify import Modified
from perfkit.analysis.replay.work import Work
from perfkit.trace.read import NONE, Ints

OF_EDGE = {
    Edge.START: BEFORE,
    Edge.HOST: HOST,
    Edge.CALL: HOST,
    Edge.LAUNCH: LAUNCH,
    Edge.STREAM: GAPS,
    Edge.EVENT: WAITS,
    Edge.INFERRED: WAITS,
    Edge.SYNC: WAITS,
    Edge.QUEUE: WAITS,
    Edge.HANDOFF: WAITS,
    Edge.PEERS: COMMUNICATION,
}


class CriticalPath(NamedTuple):
    """`seconds` of each kind of work along the path, which sum to the span; `kernels` are rows of the device on it.

    `edges` are rows of the graph's table, in the order of time; the path ends with the node `last`.
    """

    seconds: dict[str, float]
    kernels: Ints
    edges: Ints
    last: int


def critical_path(graph: Graph, work: Work, change: Modified, times: Floats) -> CriticalPath:
    """The path of a simulation (`times` of its places) that ended with `change`."""
    order, table = graph.order, graph.edges
    weight = np.append(change.weights(graph), 0.0)
    ends = times[order.place] + change.duration_ns
    last = int(ends.argmax())
    by_first = times[order.first] + weight[order.first_edge] >= times[order.second] + weight[order.second_edge]
    before = np.where(by_first, order.first, order.second).tolist()
    place = int(order.place[last])
    walked = []
    while place:
        walked.append(place)
        place = before[place]
    path = np.asarray(walked[::-1], np.int64)
    edge = np.where(by_first, order.first_edge, order.second_edge)[path]
    came = np.where(by_first, order.first, order.second)[path]
    path, came, edge = path[edge != NONE], came[edge != NONE], edge[edge != NONE]
    carries, source = table.carries[edge], table.source[edge]
    # Of each edge the kernel that it carries and what lies behind that; at the end the last node.
    until = np.empty(2 * len(edge) + 1)
    until[:-1:2] = times[came] + np.where(carries, change.duration_ns[source], 0.0)
    until[1::2] = times[path]
    until[-1] = ends[last]
    # Kernels of a stream can overlap: each piece counts from where all before it had ended.
    taken = np.diff(np.maximum.accumulate(until), prepend=0.0)
    spent: dict[str, float] = {}
    for kind in np.unique(table.kind[edge]).tolist():
        name = OF_EDGE[Edge(kind)]
        spent[name] = spent.get(name, 0.0) + float(taken[1::2][table.kind[edge] == kind].sum()) / 1e9
    nodes, ran = source[carries], taken[:-1:2][carries]
    if last >= graph.first_kernel:
        nodes, ran = np.append(nodes, last), np.append(ran, taken[-1])
    kernels = nodes - graph.first_kernel
    kinds = work.kinds[kernels] if work.on_device else np.empty(0, object)
    for name in sorted(set(kinds.tolist())):
        spent[name] = spent.get(name, 0.0) + float(ran[kinds == name].sum()) / 1e9
    return CriticalPath(spent, np.unique(kernels), edge, last)
