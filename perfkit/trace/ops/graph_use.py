"""Autograd's graph: forward ops whose nodes no backward pass runs, and nodes that run backward again."""

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import find_nearest
from perfkit.trace.match_ids import map_processes
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import Ops

_ENGINE = "autograd::engine::evaluate_function"


def find_unused_graph(ops: Ops) -> NDArray[np.bool_]:
    """Mark the ops within or below one whose node no traced backward op belongs to; none if nothing runs backward.

    Autograd numbers nodes as they are created, and each op that begins records the next number: the last to begin with
    a number, before a higher one, creates the node of that number.
    """
    count = len(ops.event)
    used = np.unique(ops.forward[ops.forward != NONE])
    nothing = np.zeros(count, np.bool_)
    if not len(used):
        return nothing
    trace = ops.trace
    sequence = trace.sequence[ops.event].astype(np.int64)
    in_backward = np.asarray(ops.forward != NONE)
    rows = np.flatnonzero((sequence != NONE) & ~in_backward & ~ops.recomputed)
    process = map_processes(trace)[trace.thread[ops.event[rows]]]
    created = nothing.copy()
    for number in np.unique(process):
        own = rows[process == number]
        # In the order of time: the last of a run of equal numbers, if a higher one follows.
        following = sequence[own[1:]] > sequence[own[:-1]]
        created[own[:-1][following]] = True
    unused = created.copy()
    unused[used] = False
    around = find_nearest(ops.parent, created)
    result: NDArray[np.bool_] = (around != NONE) & unused[around]
    return result


def find_repeated_backward(ops: Ops) -> NDArray[np.bool_]:
    """Mark backward ops of nodes that ran backward before, as with `retain_graph=True`."""
    runs = np.flatnonzero(mark_graph_nodes(ops) & (ops.forward != NONE))
    again = np.zeros(len(ops.event), np.bool_)
    if len(runs):
        _, first = np.unique(ops.forward[runs], return_index=True)
        again[np.delete(runs, first)] = True
    around = find_nearest(ops.parent, again)
    result: NDArray[np.bool_] = around != NONE
    return result


def mark_graph_nodes(ops: Ops) -> NDArray[np.bool_]:
    """Mark the runs of autograd's nodes, with all that they call."""
    return mark_named(ops.trace, ops.event, lambda name: name.startswith(_ENGINE))
