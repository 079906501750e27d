"""Replayed graphs: the kernels of each launch, in the order of the graph's nodes.

On one stream kernels run in the order in which the capture launched them. Of those of a graph that runs on several,
their numbers tell it: nodes are numbered as a capture makes them, and recent versions of CUPTI write the number with
each kernel (kineto's `graph node id`: the graph's number, and in the low 32 bits the node's, as torch's
`torch.cuda._annotate_cuda_graph_trace` reads it).
"""

import re
from collections.abc import Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.devices.device_calls import is_graph_launch
from perfkit.trace.event_names import map_names, mark_named
from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.graphs.node_tokens import NodeToken, extract_grid_and_block
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.kernels import Kernels

# Ranges around a step of a server, with the tokens (vLLM) or sequences (SGLang) of its batch.
_STEPS = (
    (re.compile(r"execute_context_\d+\((\d{1,9})\)_generation_\d+\((\d{1,9})\)"), (1, 2)),
    (re.compile(r"execute_(\d{1,9})_context_\d+\(\S*"), (1,)),
    (re.compile(r"step\[\w+ bs=(\d{1,9})\b[^\]]*\]"), (1,)),
)


@dataclass(frozen=True)
class ReplayedLaunches:
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
    tokens: tuple[NodeToken, ...]
    stream: Ints
    in_order: bool
    size: int


def find_replayed_graphs(trace: Trace, kernels: Kernels) -> list[ReplayedLaunches]:
    """The graphs that a trace replayed, those of most kernels first."""
    rows, of = _find_graph_kernels(trace, kernels)
    if not len(rows):
        return []
    event = kernels.event[rows]
    start, stream, node = trace.start_ns[event], trace.stream[event], trace.node[event].astype(np.int64)
    begin = np.flatnonzero(np.diff(of, prepend=-1))
    on_one = np.minimum.reduceat(stream, begin) == np.maximum.reduceat(stream, begin)
    numbered = _find_numbered_launches(node, of, begin)
    order = np.lexsort((np.where((numbered & ~on_one)[of], node, start), of))
    rows, event, stream = rows[order], event[order], stream[order]
    in_order = on_one | numbered
    count = np.diff(np.append(begin, len(rows)))
    place = np.arange(len(rows)) - begin[of]
    # Sums of random numbers tell sequences apart; a stream matters only where the order does not follow from it.
    token = _draw_marks(trace.names, 1)[trace.name[event]] + _draw_marks(trace.geometries, 2)[trace.geometry[event]]
    token += np.where(in_order[of], np.uint64(0), (stream.astype(np.uint64) + np.uint64(1)) * _draw_marks((), 3)[0])
    sequence = np.add.reduceat(token * _draw_marks(range(int(count.max())), 4)[place], begin)
    size = _find_batch_sizes(trace, kernels.launch[rows[begin]])
    kind = np.stack((sequence.view(np.int64), count, in_order.astype(np.int64), size))
    _, first, inverse = np.unique(kind, axis=1, return_index=True, return_inverse=True)
    members = np.split(np.argsort(inverse.ravel(), kind="stable"), np.cumsum(np.bincount(inverse.ravel()))[:-1])
    graphs = []
    for launch, mine in zip(first.tolist(), members, strict=True):
        its = slice(int(begin[launch]), int(begin[launch] + count[launch]))
        tokens = tuple(_build_token(trace, int(member)) for member in event[its])
        matrix = rows[begin[mine][:, None] + np.arange(int(count[launch]))]
        graphs.append(ReplayedLaunches(matrix, tokens, stream[its], bool(in_order[launch]), int(size[launch])))
    return sorted(graphs, key=lambda graph: -graph.rows.size)


def _find_graph_kernels(trace: Trace, kernels: Kernels) -> tuple[Ints, Ints]:
    """The kernels of graphs, launch by launch, and the number of the launch of each.

    A launch is known by its call's id; where CUPTI mixed up these, by the numbers of nodes.
    """
    calls = trace.select_events(Category.LAUNCH)
    calls = calls[mark_named(trace, calls, is_graph_launch)]
    called = np.flatnonzero((kernels.launch != NONE) & np.isin(kernels.launch, calls))
    launch = np.unique(kernels.launch[called], return_inverse=True)[1]
    node = trace.node[kernels.event].astype(np.int64)
    loose = np.flatnonzero((kernels.launch == NONE) & (kernels.op == NONE) & (node != NONE))
    loose, turn = _assign_launches(loose, node[loose], trace.start_ns[kernels.event[loose]])
    rows = np.concatenate((called, loose))
    of = np.concatenate((launch, turn + int(launch.max(initial=-1)) + 1))
    order = np.argsort(of, kind="stable")
    return rows[order], of[order]


def _assign_launches(rows: Ints, node: Ints, start: Ints) -> tuple[Ints, Ints]:
    """Kernels of graphs, and the number of the launch of each: each launch runs every node of its graph once.

    Where some nodes of a graph ran more often than others, kernels are missing, and nothing tells the launches apart.
    """
    order = np.lexsort((start, node))
    rows, node = rows[order], node[order]
    first = np.flatnonzero(np.diff(node, prepend=-1))
    count = np.diff(np.append(first, len(node)))
    graph, of_node = np.unique(node[first] >> 32, return_inverse=True)
    turns = np.zeros((2, len(graph)), np.int64)
    np.maximum.at(turns[0], of_node, count)
    turns[1] = turns[0]
    np.minimum.at(turns[1], of_node, count)
    whole = np.repeat((turns[0] == turns[1])[of_node], count)
    begin = np.concatenate(([0], np.cumsum(turns[0])))[:-1]
    turn = np.repeat(begin[of_node], count) + np.arange(len(node)) - np.repeat(first, count)
    return rows[whole], np.unique(turn[whole], return_inverse=True)[1]


def _find_numbered_launches(node: Ints, of: Ints, begin: Ints) -> NDArray[np.bool_]:
    """True where each kernel of a launch has a node of its own."""
    order = np.lexsort((node, of))
    again = np.append(False, (np.diff(node[order]) == 0) & (np.diff(of[order]) == 0))
    without = np.logical_or.reduceat((node[order] == NONE) | again, begin)
    numbered: NDArray[np.bool_] = ~without
    return numbered


def _draw_marks(table: Sized, seed: int) -> NDArray[np.uint64]:
    """A random number for each entry of a table, and one for none."""
    return np.random.default_rng(seed).integers(0, 2**64, len(table) + 1, np.uint64)


def _build_token(trace: Trace, event: int) -> NodeToken:
    number = int(trace.geometry[event])
    geometry = b"" if number == NONE else extract_grid_and_block(trace.geometries[number])
    return NodeToken(Category(int(trace.category[event])), trace.names[int(trace.name[event])], geometry)


def _find_batch_sizes(trace: Trace, calls: Ints) -> Ints:
    """The batch size of each launch by the range around it; NONE where its call is unknown."""
    result = np.full(len(calls), NONE, np.int64)
    ranges, sizes = map_names(trace, trace.select_events(Category.RANGE), _parse_range_size)
    known = np.flatnonzero(calls != NONE)
    if len(ranges) and len(known):
        around = find_around_times(trace, ranges, trace.thread[calls[known]], trace.start_ns[calls[known]])
        size = np.asarray([sizes[int(name)] for name in trace.name[ranges].tolist()], np.int64)
        result[known] = np.where(around == NONE, NONE, size[around])
    return result


def _parse_range_size(name: str) -> int | None:
    for pattern, groups in _STEPS:
        match = pattern.fullmatch(name)
        if match is not None:
            return sum(int(match[group]) for group in groups)
    return None
