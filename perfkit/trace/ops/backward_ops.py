"""Backward ops: their autograd node, their forward op, and which of them recompute forward.

A forward op that creates a node of the graph of gradients records autograd's sequence number, and so does that node
when its gradient is computed. Where gradients are recorded, ops called on the way have the same number as the one that
creates the node; it is the last of them to begin (as in Kineto's own generation of forward-backward flows).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.annotations import is_autograd_node
from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import find_nearest
from perfkit.trace.match_ids import find_latest_before, map_processes, match_flows
from perfkit.trace.model import NONE, Ints, Trace

_KEEPS = frozenset({"aten::detach", "detach"})


class BackwardOps(NamedTuple):
    """Columns, one row an op.

    `node` is the row of the innermost autograd node around it (itself, if it is one), `forward` that of the forward
    op whose gradient it helps to compute; NONE where there is none. `recomputed` marks forward ops run again,
    `interrupted` those of them in which the recomputation stopped, before they did anything.
    """

    node: Ints
    forward: Ints
    recomputed: NDArray[np.bool_]
    interrupted: NDArray[np.bool_]


def find_backward(trace: Trace, event: Ints, parent: Ints) -> BackwardOps:
    """Mark the backward ops (rows in order of time, with the row around each)."""
    is_node = mark_named(trace, event, is_autograd_node)
    if not is_node.any():
        nothing = np.full(len(event), NONE, np.int64)
        none = np.zeros(len(event), np.bool_)
        return BackwardOps(nothing, nothing.copy(), none, none.copy())
    node = find_nearest(parent, is_node)
    recomputed = _find_recomputed(trace, event, parent, is_node, node)
    own = _match_forward_ops(trace, event, parent, is_node)
    # A node without a number of its own lies within the engine's event that has it, or is of no forward op.
    decisive = is_node & ((own != NONE) | mark_named(trace, event, lambda name: name.startswith("autograd::engine")))
    around = find_nearest(parent, decisive)
    forward = np.where((around == NONE) | recomputed, NONE, own[around])
    return BackwardOps(node, forward, recomputed, _find_interrupted(trace, event, parent, recomputed))


def _match_forward_ops(trace: Trace, event: Ints, parent: Ints, is_node: NDArray[np.bool_]) -> Ints:
    result = np.full(len(event), NONE, np.int64)
    # Numbers are counted by each process.
    counts = int(map_processes(trace).max()) + 1
    process = map_processes(trace)[trace.thread[event]]
    sequence = trace.sequence[event]
    key = np.where(sequence == NONE, NONE, sequence.astype(np.int64) * counts + process)
    nodes = np.flatnonzero(is_node & (key != NONE))
    others = np.flatnonzero(~is_node & (key != NONE))
    starts = trace.start_ns[event]
    if len(nodes) and len(others):
        latest = find_latest_before(key[nodes], starts[nodes], key[others], starts[others])
        row = np.where(latest == NONE, NONE, others[latest])
        result[nodes] = np.where((row != NONE) & (starts[row] <= starts[nodes]), row, NONE)
    source, target = match_flows(trace, "backward", event, event, parent)
    if len(target):
        # Threads count separately: with several or no matching numbers, arrows decide.
        ambiguous = _find_ambiguous_keys(key[others], trace.thread[event[others]])
        wanted = is_node[target] & ~is_node[source]
        wanted &= (result[target] == NONE) | np.isin(key[target], ambiguous)
        result[target[wanted]] = source[wanted]
    return result


def _find_ambiguous_keys(key: Ints, thread: NDArray[np.int32]) -> Ints:
    order = np.lexsort((thread, key))
    same = (np.diff(key[order]) == 0) & (np.diff(thread[order]) != 0)
    several: Ints = np.unique(key[order][1:][same])
    return several


def _find_recomputed(
    trace: Trace, event: Ints, parent: Ints, is_node: NDArray[np.bool_], node: Ints
) -> NDArray[np.bool_]:
    """Ops within backward that record sequence numbers, and that ran in forward before with the same inputs.

    Computing gradients records none, as gradients of gradients are not asked for: only what is run again to be
    differentiated (by torch.utils.checkpoint and its like) does. Where all that a node calls records numbers,
    gradients of gradients are being prepared, and nothing is run again, unless the node is a checkpoint.
    """
    sequence = trace.sequence[event]
    within = (node != NONE) & ~is_node
    numbered: NDArray[np.bool_] = within & (sequence != NONE)
    if not numbered.any():
        return numbered
    plain = np.zeros(len(event), np.bool_)
    direct = np.flatnonzero(within & (sequence == NONE) & (parent == node))
    plain[node[direct]] = True
    plain |= mark_named(trace, event, lambda name: "Checkpoint" in name) & is_node
    numbered &= plain[node]
    call = _number_calls(trace, event)
    before = np.flatnonzero((node == NONE) & ~is_node)
    numbered &= np.isin(call, call[before])
    # With all that they call, down to the gradients that a checkpoint computes of them.
    around = find_nearest(parent, numbered | is_node)
    again: NDArray[np.bool_] = (around != NONE) & numbered[around]
    return again


def _find_interrupted(trace: Trace, event: Ints, parent: Ints, recomputed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Recomputed ops that call nothing to compute, where equal calls elsewhere all call others.

    A checkpoint stops at the last tensor that backward needs. Mostly it is an operand of an op, which autograd keeps
    before the op computes; the checkpoint detaches what is kept.
    """
    if not recomputed.any():
        return recomputed.copy()
    calls_nothing = np.ones(len(event), np.bool_)
    calls_nothing[parent[(parent != NONE) & ~mark_named(trace, event, _KEEPS.__contains__)]] = False
    silent = recomputed & calls_nothing
    call = _number_calls(trace, event)
    plain, silent_elsewhere = call[~recomputed], call[~recomputed & calls_nothing]
    return silent & np.isin(call, plain) & ~np.isin(call, silent_elsewhere)


def _number_calls(trace: Trace, event: Ints) -> Ints:
    """A number for each pair of name and arguments."""
    calls: Ints = trace.name[event].astype(np.int64) * (len(trace.signatures) + 1) + trace.signature[event] + 1
    return calls
