"""Graphs as they were replayed: the kernels of each launch, in the order of the graph's nodes.

On one stream kernels run in the order in which the capture launched them. Of those of a graph that runs on several,
their numbers tell it: nodes are numbered as a capture makes them, and recent versions of CUPTI write the number with
each kernel (kineto's `graph node id`: the graph's number, and in the low 32 bits the node's, as torch's
`torch.cuda._annotate_cuda_graph_trace` reads it).
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from perfkit.device_calls import launches_graph
from perfkit.trace.graphs.tokens import Token, grid_and_block
from perfkit.trace.kernels import Kernels
from perfkit.trace.naming import named, numbered
from perfkit.trace.nesting import around_times
from perfkit.trace.read import NONE, Category, Ints, Trace

# Ranges around a step of a server, with the tokens (vLLM) or sequences (SGLang) of its batch.
_STEPS = (
    (re.compile(r"execute_context_\d+\((\d+)\)_generation_\d+\((\d+)\)"), (1, 2)),
    (re.compile(r"execute_(\d+)_context_\d+\(\S*"), (1,)),
    (re.compile(r"step\[\w+ bs=(\d+)\b[^\]]*\]"), (1,)),
)


@dataclass(frozen=True)
class Replayed:
    """Launches that replayed the same kernels in the same order.

    Attributes:
        rows: rows of `Kernels`, one a launch, one column a node.
        tokens: the nodes.
        stream: of each node as the first launch ran it.
        in_order: whether the nodes are in the order of their capture: on one stream, or by their numbers; else they
            are in that of time.
        size: tokens or sequences of the batch, NONE where no range around the launch tells.
    """

    rows: Ints
    tokens: tuple[Token, ...]
    stream: Ints
    in_order: bool
    size: int


class _Sequence(NamedTuple):
    """What launches of one graph have in common."""

    names: bytes
    geometries: bytes
    streams: bytes
    in_order: bool
    size: int


def replayed_graphs(trace: Trace, kernels: Kernels) -> list[Replayed]:
    """The graphs that a trace replayed, those of most kernels first."""
    alike: dict[_Sequence, list[Ints]] = defaultdict(list)
    sizes = _sizes(trace, kernels)
    node = trace.node[kernels.event].astype(np.int64)
    for rows in _launches(trace, kernels, node):
        on_one = len(np.unique(trace.stream[kernels.event[rows]])) == 1
        numbered = bool((node[rows] != NONE).all()) and len(np.unique(node[rows])) == len(rows)
        by_number = numbered and not on_one
        rows = rows[np.argsort(node[rows] if by_number else trace.start_ns[kernels.event[rows]], kind="stable")]
        events = kernels.event[rows]
        stream = np.unique(trace.stream[events], return_inverse=True)[1]
        size = sizes.get(int(kernels.launch[rows[0]]), NONE)
        what = (trace.name[events].tobytes(), trace.geometry[events].tobytes(), stream.tobytes())
        alike[_Sequence(*what, on_one or numbered, size)].append(rows)
    graphs = []
    for sequence, launches in alike.items():
        first = kernels.event[launches[0]]
        tokens = tuple(_token(trace, event) for event in first.tolist())
        graph = Replayed(np.stack(launches), tokens, trace.stream[first], sequence.in_order, sequence.size)
        graphs.append(graph)
    return sorted(graphs, key=lambda graph: -graph.rows.size)


def _launches(trace: Trace, kernels: Kernels, node: Ints) -> Iterator[Ints]:
    """The kernels of each launch of a graph, by the call's id; where CUPTI mixed up these, by the nodes' numbers."""
    calls = trace.of(Category.LAUNCH)
    calls = calls[named(trace, calls, launches_graph)]
    rows = np.flatnonzero(np.isin(kernels.launch, calls) & (kernels.launch != NONE))
    rows = rows[np.argsort(kernels.launch[rows], kind="stable")]
    yield from _runs(rows, kernels.launch[rows])
    loose = np.flatnonzero((kernels.launch == NONE) & (kernels.op == NONE) & (node != NONE))
    loose = loose[np.lexsort((trace.start_ns[kernels.event[loose]], node[loose]))]
    for mine in _runs(loose[np.argsort(node[loose] >> 32, kind="stable")], np.sort(node[loose] >> 32)):
        _, count = np.unique(node[mine], return_counts=True)
        if (count == count[0]).all():  # else some are missing, and which launch a kernel is of is not known
            yield from mine.reshape(-1, int(count[0])).T


def _runs(rows: Ints, key: Ints) -> list[Ints]:
    """Rows split where their sorted key changes."""
    return np.split(rows, np.flatnonzero(np.diff(key)) + 1) if len(rows) else []


def _token(trace: Trace, event: int) -> Token:
    number = int(trace.geometry[event])
    geometry = b"" if number == NONE else grid_and_block(trace.geometries[number])
    return Token(Category(int(trace.category[event])), trace.names[int(trace.name[event])], geometry)


def _sizes(trace: Trace, kernels: Kernels) -> dict[int, int]:
    """Of each launch the size of the batch, as the range around it tells."""
    calls = np.unique(kernels.launch[kernels.launch != NONE])
    ranges, sizes = numbered(trace, trace.of(Category.RANGE), _size_of_range)
    if not len(ranges) or not len(calls):
        return {}
    around = around_times(trace, ranges, trace.thread[calls], trace.start_ns[calls])
    found = zip(calls.tolist(), around.tolist(), strict=True)
    return {call: sizes[int(trace.name[ranges[at]])] for call, at in found if at != NONE}


def _size_of_range(name: str) -> int | None:
    for pattern, groups in _STEPS:
        match = pattern.fullmatch(name)
        if match is not None:
            return sum(int(match[group]) for group in groups)
    return None
