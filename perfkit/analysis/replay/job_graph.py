"""Replays several ranks of a job together: a collective ends after the last rank arrives and its own time passes.

What a rank recorded of a collective holds how late the others were. With all of them in one graph that comes from the
graph: a kernel of a collective takes no time until all have begun theirs, and then what it took the last one to come.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.analysis.replay.edges import EdgeKind, Edges, Floats, join_edges, make_edges
from perfkit.analysis.replay.graph_changes import ModifiedGraph
from perfkit.analysis.replay.rank_graph import RankGraph
from perfkit.analysis.replay.simulation import NodeOrder, order_nodes, simulate_times
from perfkit.trace.model import NONE, Ints


@dataclass(frozen=True)
class JobGraph:
    """The ranks' graphs in one: node 0 is where all begins, then those of each rank, then the `meetings`.

    Attributes:
        first: number of each rank's first node but its beginning; `shift_ns` is when that rank begins.
        kernel: node of each meeting's kernel on each rank, `number` that of the meeting; `alone_ns` is what it takes
            when all have come, recorded in `took_ns`.
        peers: how many edges lead from kernels to meetings.
    """

    graphs: tuple[RankGraph, ...]
    first: Ints
    shift_ns: Ints
    kernel: Ints
    number: Ints
    alone_ns: Floats
    took_ns: Floats
    peers: int
    order: NodeOrder

    def simulate_ranks(self, changes: Sequence[ModifiedGraph]) -> list[tuple[Floats, Floats]]:
        """Start and end of each node of each rank, from the rank's beginning, with a change of each rank's graph."""
        own = np.concatenate([[0.0], *(change.duration_ns[1:] for change in changes)])
        # A collective takes equally long on all ranks: a shorter one is shorter on all.
        least = np.full(int(self.number.max(initial=-1)) + 1, np.inf)
        np.minimum.at(least, self.number, own[self.kernel] / np.maximum(self.took_ns, 1.0))
        duration = np.concatenate([own, self.alone_ns * least[self.number]])
        duration[self.kernel] = 0.0
        table = self.order.edges
        lag = np.concatenate(
            [
                change.lag_ns + np.where(graph.edges.source == 0, shift, 0)
                for change, graph, shift in zip(changes, self.graphs, self.shift_ns.tolist(), strict=True)
            ]
        )
        lag = np.concatenate([lag, np.zeros(self.peers)])[self.order.kept]
        times = simulate_times(self.order, lag + np.where(table.carries, duration[table.source], 0.0))
        happens = times[self.order.place]
        ends = happens + duration
        ends[self.kernel] = ends[len(ends) - len(self.kernel) :]
        return [
            (happens[its] - shift, ends[its] - shift)
            for its, shift in zip(map(self._list_nodes, range(len(self.graphs))), self.shift_ns.tolist(), strict=True)
        ]

    def _list_nodes(self, rank: int) -> Ints:
        count = len(self.graphs[rank]) - 1
        return np.concatenate(([0], self.first[rank] + np.arange(count)))


def build_job_graph(graphs: Sequence[RankGraph], meeting: Sequence[Ints], offset_ns: Sequence[int]) -> JobGraph:
    """The graph of all ranks.

    Args:
        graphs: of each rank.
        meeting: of each rank, for each row of its device the number of the collective that it is, NONE for all else.
        offset_ns: how far each rank's clock is ahead.
    """
    begins = [graph.begins_ns - offset for graph, offset in zip(graphs, offset_ns, strict=True)]
    shift = np.asarray(begins, np.int64) - min(begins)
    sizes = np.asarray([len(graph) - 1 for graph in graphs])
    first = 1 + np.concatenate(([0], np.cumsum(sizes)[:-1]))
    rows = [np.flatnonzero(numbers != NONE) for numbers in meeting]
    met = np.concatenate([numbers[its] for numbers, its in zip(meeting, rows, strict=True)])
    kernel = np.concatenate(
        [at + graph.first_kernel - 1 + its for at, graph, its in zip(first.tolist(), graphs, rows, strict=True)]
    )
    at_ns = np.concatenate([[0], *(graph.at_ns[1:] + late for graph, late in zip(graphs, shift.tolist(), strict=True))])
    took = np.concatenate([[0], *(graph.duration_ns[1:] for graph in graphs)])[kernel].astype(np.float64)
    _, which = np.unique(met, return_inverse=True)
    alone = np.full(int(which.max(initial=-1)) + 1, np.inf)
    np.minimum.at(alone, which, took)
    nodes = 1 + int(sizes.sum()) + np.arange(len(kernel))
    last = np.full(len(alone), np.iinfo(np.int64).min)
    np.maximum.at(last, which, at_ns[kernel])
    meets = np.maximum(at_ns[kernel], np.minimum(last[which], at_ns[kernel] + took.astype(np.int64)))
    ends = np.arange(int(nodes[-1]) + 1 if len(nodes) else 1 + int(sizes.sum()))
    ends[kernel] = nodes  # waiting for a collective's kernel means waiting for the collective
    tables = [_move_edges(graph.edges, at, ends) for graph, at in zip(graphs, first.tolist(), strict=True)]
    # Simultaneous nodes keep their rank's order; a collective follows all arrivals.
    place = np.concatenate([[0], *(graph.place[1:] for graph in graphs)])
    after = np.zeros(len(alone), np.int64)
    np.maximum.at(after, which, place[kernel])
    both = np.concatenate([at_ns, meets])
    rank = np.concatenate([2 * place, 2 * after[which] + 1])
    peers = _build_peer_edges(kernel, nodes, which)
    order = order_nodes(both, rank, join_edges([*tables, peers]), len(both))
    return JobGraph(tuple(graphs), first, shift, kernel, which, alone[which], took, len(peers), order)


def _move_edges(table: Edges, first: int, ends: Ints) -> Edges:
    """A rank's edges between nodes of the job."""
    source = np.where(table.source == 0, 0, table.source + first - 1)
    return Edges(
        np.where(table.carries, ends[source], source), table.target + first - 1, table.kind, table.lag_ns, table.carries
    )


def _build_peer_edges(kernel: Ints, nodes: Ints, which: Ints) -> Edges:
    """Add edges from each kernel of a collective to the collective on each rank."""
    order = np.argsort(which, kind="stable")
    counts = np.bincount(which) if len(which) else np.empty(0, np.int64)
    sources, targets = [], []
    for its in np.split(order, np.cumsum(counts)[:-1]):
        sources.append(np.repeat(kernel[its], len(its)))
        targets.append(np.tile(nodes[its], len(its)))
    return make_edges(EdgeKind.PEERS, np.concatenate(sources), np.concatenate(targets), 0)
