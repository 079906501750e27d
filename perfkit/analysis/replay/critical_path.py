"""What a step's length is made of: from its end back along what each thing waited for last."""

from typing import NamedTuple

import numpy as np

from perfkit.analysis.replay.edges import Edge, Floats
from perfkit.analysis.replay.graph import Graph
from perfkit.analysis.replay.modify import Modified
from perfkit.analysis.replay.work import COMMUNICATION, COPIES, Work
from perfkit.trace.read import Ints

HOST, LAUNCH, GEMM, ATTENTION, OTHER_KERNELS = "host", "launch", "GEMM", "attention", "other kernels"
WAITS, GAPS, BEFORE = "waits", "gaps between kernels", "before the first recorded work"

_OF_EDGE = {
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
    Edge.PEERS: "communication",
}


class CriticalPath(NamedTuple):
    """`seconds` of each kind of work along the path, which sum to the span; `kernels` are rows of the device on it."""

    seconds: dict[str, float]
    kernels: Ints


def critical_path(graph: Graph, work: Work, change: Modified, times: Floats) -> CriticalPath:
    """The path of a simulation (`times` of its places) that ended with `change`."""
    order, table = graph.order, graph.edges
    weight = np.append(change.weights(graph), 0.0)
    ends = times[order.place] + change.duration_ns
    last = int(ends.argmax())
    kind_of = _kinds(work)
    node_of = np.full(len(order), -1, np.int64)
    node_of[order.place] = np.arange(len(graph))
    spent: dict[str, float] = {}
    kernels: list[int] = []

    def spend(kind: str, nanoseconds: float) -> None:
        spent[kind] = spent.get(kind, 0.0) + nanoseconds / 1e9

    def run(node: int) -> None:
        row = node - graph.first_kernel
        kernels.append(row)
        spend(kind_of[row], float(change.duration_ns[node]))

    if last >= graph.first_kernel:
        run(last)
    place = int(order.place[last])
    while place:
        choices = (
            (times[order.first[place]] + weight[order.first_edge[place]], order.first_edge[place], order.first[place]),
            (
                times[order.second[place]] + weight[order.second_edge[place]],
                order.second_edge[place],
                order.second[place],
            ),
        )
        _, edge, before = max(choices, key=lambda choice: float(choice[0]))
        if edge >= 0:
            taken = float(times[place] - times[before])
            source = int(table.source[edge])
            if table.carries[edge]:
                run(source)
                taken -= float(change.duration_ns[source])
            spend(_OF_EDGE[Edge(int(table.kind[edge]))], taken)
        place = int(before)
    return CriticalPath(spent, np.asarray(sorted(set(kernels)), np.int64))


def _kinds(work: Work) -> list[str]:
    if not work.on_device:
        return []
    kinds = np.full(len(work), OTHER_KERNELS, object)
    for what, kind in (("gemm", GEMM), ("attention", ATTENTION), (COMMUNICATION, "communication"), (COPIES, "copies")):
        kinds[work.fits(what)] = kind
    names: list[str] = kinds.tolist()
    return names
