"""Costs the ops of a trace: each distinct call once, ops level by level of nesting."""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost
from perfkit.cost.expert_layers import EXPERT_EVIDENCE, EXPERT_LAYERS, cost_expert_layer
from perfkit.cost.fallback import estimate_fallback_cost, is_custom
from perfkit.cost.formula_table import MOVES, cost_op, has_formula
from perfkit.cost.formulas.free_ops import COLLECTIVES, COMPOSITES, FREE
from perfkit.cost.layer_gradients import cost_layer_gradient, find_layer
from perfkit.cost.nested_costs import SIZED_INSIDE, TELLING, cost_from_nested_calls
from perfkit.cost.table_gradients import LOOKUP, NODE, cost_table_gradient
from perfkit.trace.event_names import EventNames
from perfkit.trace.event_nesting import compute_depths, sort_by_group
from perfkit.trace.model import NONE, Ints, Trace
from perfkit.trace.ops import tensor_list_dtypes
from perfkit.trace.ops.kernels import is_compiled_graph, is_compiled_kernel, is_compiled_region
from perfkit.trace.ops.signatures import has_missing_strides
from perfkit.trace.ops.tensor_list_evidence import TensorListEvidence

# Kernels of their own on some devices, compositions on others: costed as one unless costed ops lie beneath.
_SPLIT_ON_SOME_DEVICES = frozenset({"aten::_fused_rms_norm"})
# Levels of ops within ops, each of which is a pass over its rows. Python itself nests calls 1,000 deep, programs not
# ten; a damaged or hostile trace has as many levels as events.
_DEEPEST = 1000


# Work on tensors whose shape does not show how many elements they store: no GEMM, and of unknown cost.
SPARSE_OPERANDS = "sparse operands"
_OF_SPARSE = OpCost(flops=None, bytes=None, unit=ComputeUnit.VECTOR, dtype="", source=SPARSE_OPERANDS)


class OpRole(IntEnum):
    """The role of an op's own time."""

    COSTED = 0  # work with a cost, all of its nest included
    INSIDE = 1  # part of a costed op
    UNMODELED = 2  # work without a formula or without recorded shapes; compiled code
    OVERHEAD = 3  # dispatch, autograd, views, allocation: no work on data
    COMMUNICATION = 4  # a collective as called by the program


class CostedCall(NamedTuple):
    """A distinct call and its cost."""

    call: OpCall
    cost: OpCost


class CostColumns(NamedTuple):
    """Columns of `Ops`: the costed op that covers each, the role of its own time, and the index of its call."""

    owner: Ints
    role: NDArray[np.int8]
    call: Ints
    calls: list[CostedCall]


def leave_out_ops(costs: CostColumns, idle: NDArray[np.bool_]) -> CostColumns:
    """The columns with these ops as overhead: calls that did not come to their work."""
    return costs._replace(
        owner=np.where(idle, NONE, costs.owner),
        role=np.where(idle, np.int8(OpRole.OVERHEAD), costs.role),
        call=np.where(idle, NONE, costs.call),
    )


def cost_ops(
    trace: Trace,
    event: Ints,
    parent: Ints,
    kernel_op: Ints,
    kernel_name: NDArray[np.int32],
    *,
    with_torch: bool = True,
) -> CostColumns:
    """Cost ops (rows in the order of time, with the row around each) at the outermost level that has a formula.

    `kernel_op` is the row that launched each kernel, `kernel_name` the index of the kernel's name. Without torch, ops
    that only it has a formula for have no cost.
    """
    evidence = TensorListEvidence(trace, event, parent, kernel_op, kernel_name)
    names, signature = EventNames.from_events(trace, event), trace.signature[event]
    name = names.column
    key, keys = _group_pairs(name, signature)
    # Of each distinct op: its call, once it was asked for; or that it has to be asked for row by row.
    number = np.full(keys, NONE, np.int64)
    asked, by_row = np.zeros(keys, np.bool_), np.zeros(keys, np.bool_)
    split = _find_split_ops(trace, names, signature, parent)
    calls: list[CostedCall] = []
    known: dict[tuple[int, int, str, tuple[OpCall, ...] | None], int] = {}
    sized_inside = names.are(SIZED_INSIDE.__contains__)

    def inside_of(row: int) -> tuple[OpCall, ...] | None:
        return evidence.find_inner_calls(row, TELLING) if sized_inside[row] else None

    def cost_layer(call: OpCall, row: int) -> OpCost | None:
        if call.name not in EXPERT_LAYERS:
            return None
        return cost_expert_layer(call, evidence.find_inner_calls(row, EXPERT_EVIDENCE))

    def ask(row: int, dtype: str = "", *, fallback: bool = False) -> int:
        """The index in `calls` of the op's call, NONE if it has no cost or does no work (a view)."""
        args = evidence.get_arguments(int(signature[row]))
        call = OpCall(trace.names[int(name[row])], tensor_list_dtypes.fill_dtype(args, dtype))
        cost = cost_op(call, with_torch=with_torch)
        if cost is None and fallback:
            cost = _cost_gradient(call, calls) or cost_layer(call, row) or estimate_fallback_cost(call)
        inside = inside_of(row)
        if inside and (cost is None or cost.bytes is None):
            cost = cost_from_nested_calls(call, inside) or cost
        if cost is not None and _is_sparse(trace, call.name, int(signature[row])):
            cost = _OF_SPARSE  # with all that it calls, which would be costed as if it worked on all elements
        if cost is None or (cost.flops == 0 and cost.bytes == 0):
            return NONE
        calls.append(CostedCall(call, cost))
        return len(calls) - 1

    def ask_row(row: int) -> int:
        """The same for an op whose context shows more; equal ones in other contexts are one call."""
        dtype = evidence.infer_dtype(row)
        identity = (int(name[row]), int(signature[row]), dtype, inside_of(row))
        if identity not in known:
            known[identity] = ask(row, dtype)
        return known[identity]

    owner, call_of = np.full(len(event), NONE, np.int64), np.full(len(event), NONE, np.int64)
    for level in _walk_levels(parent):
        outer = parent[level]
        owner[level] = np.where(outer == NONE, NONE, owner[outer])
        rows = level[(owner[level] == NONE) & ~split[level]]
        mine = key[rows]
        new, first = np.unique(mine, return_index=True)
        for kind, row in zip(new.tolist(), rows[first].tolist(), strict=True):
            if not asked[kind]:
                asked[kind] = True
                listed = bool(tensor_list_dtypes.find_unknown_shapes(evidence.get_arguments(int(signature[row]))))
                by_row[kind] = listed or sized_inside[row]
                number[kind] = NONE if by_row[kind] else ask(row)
        call = number[mine]
        told_apart = np.flatnonzero(by_row[mine])
        if len(told_apart):
            examples, same = evidence.group_contexts(rows[told_apart])
            call[told_apart] = np.asarray([ask_row(row) for row in examples.tolist()])[same]
        costed = call != NONE
        owner[rows[costed]], call_of[rows[costed]] = rows[costed], call[costed]
    _cost_remaining_ops(names, parent, kernel_op, key, owner, call_of, ask)
    return CostColumns(owner, _classify_roles(names, parent, kernel_op, owner, call_of, calls), call_of, calls)


def _cost_remaining_ops(
    names: EventNames,
    parent: Ints,
    kernel_op: Ints,
    key: Ints,
    owner: Ints,
    call_of: Ints,
    ask: Callable[..., int],
) -> None:
    """Cost ops of other packages and with lost sizes, where nothing beneath shows more, and others that launch kernels.

    Where devices were traced, only those that launched something: the others work on the host.
    """
    levels = list(_walk_levels(parent))
    moves, with_formula = names.are(MOVES.__contains__), names.are(has_formula)
    launching = np.zeros(len(parent), np.bool_)
    launching[kernel_op[kernel_op != NONE]] = True
    telling, covered, working = call_of != NONE, np.zeros(len(parent), np.bool_), launching.copy()
    for level in reversed(levels):  # from the innermost outward
        nested = level[parent[level] != NONE]
        for beneath in (telling, working):
            beneath[parent[nested[beneath[nested]]]] = True
        covered[parent[nested[covered[nested] | with_formula[nested]]]] = True
    foreign = ~names.are(lambda name: name.startswith("aten::"))
    custom = names.are(is_custom)
    itself = launching & foreign & ~names.are(is_compiled_region)
    asked: dict[int, int] = {}

    def cost(rows: Ints) -> Ints:
        """Assign known costs to these rows; returns the rows that have one."""
        for call_key, row in zip(*(part.tolist() for part in np.unique(key[rows], return_index=True)), strict=True):
            if call_key not in asked:
                asked[call_key] = ask(int(rows[row]), fallback=True)
        calls = np.asarray([asked[call_key] for call_key in key[rows].tolist()], np.int64)
        costed: Ints = rows[calls != NONE]
        owner[costed], call_of[costed] = costed, calls[calls != NONE]
        return costed

    # A nested op shows more: its outputs, and the tensors between it and its neighbors.
    wanted = custom & ((working & ~telling) | itself) if len(kernel_op) else custom & ~telling
    decided = np.zeros(len(parent), np.bool_)
    for level in reversed(levels):
        decided[cost(level[wanted[level] & (owner[level] == NONE) & (~decided[level] | itself[level])])] = True
        nested = level[parent[level] != NONE]
        decided[parent[nested[decided[nested]]]] = True
    others = moves & ~covered
    wanted = (others & working) | (itself & ~custom) if len(kernel_op) else others
    for level in levels:
        outer = parent[level]
        mine = level[(owner[level] == NONE) & (outer != NONE)]
        owner[mine] = owner[parent[mine]]
        cost(level[wanted[level] & (owner[level] == NONE)])


def _is_sparse(trace: Trace, name: str, signature: int) -> bool:
    """True if an op works on sparse tensors. oneDNN's own layout, of convolutions and frozen models, is dense."""
    dense = "mkldnn" in name or "conv" in name
    return not dense and signature != NONE and has_missing_strides(trace.signatures[signature])


def _cost_gradient(call: OpCall, calls: list[CostedCall]) -> OpCost | None:
    """The cost of a backward node that is given only gradients, from the forward calls of the trace."""
    forward = LOOKUP if call.name == NODE else find_layer(call.name)
    if forward is None:
        return None
    forwards = [costed.call for costed in calls if costed.call.name == forward]
    return cost_table_gradient(call, forwards) if forward == LOOKUP else cost_layer_gradient(call, forwards)


def _group_pairs(name: NDArray[np.int32], signature: NDArray[np.int32]) -> tuple[Ints, int]:
    """Number the distinct pairs of name and signature; returns their count, too."""
    if not len(name):
        return np.empty(0, np.int64), 0
    width = int(signature.max()) + 2
    pair = name.astype(np.int64) * width + (signature + 1)
    possible = (int(name.max()) + 1) * width
    if possible > 16 * len(name) + 2**20:
        distinct, key = np.unique(pair, return_inverse=True)
        return key, len(distinct)
    occurs = np.zeros(possible, np.bool_)  # a table is faster than sorting where it is not much larger
    occurs[pair] = True
    return (np.cumsum(occurs) - 1)[pair], int(occurs.sum())


def _walk_levels(parent: Ints) -> Iterator[Ints]:
    """The rows by nesting depth, outermost first; ops deeper than `_DEEPEST` have no cost."""
    depth = compute_depths(parent)
    order = sort_by_group(depth)
    begin = 0
    for end in np.cumsum(np.bincount(depth))[:_DEEPEST].tolist():
        yield order[begin:end]
        begin = end


def _mark_parents(parent: Ints, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows that have one of these directly beneath them."""
    result = np.zeros(len(parent), np.bool_)
    result[parent[rows & (parent != NONE)]] = True
    return result


def _find_split_ops(trace: Trace, names: EventNames, signature: NDArray[np.int32], parent: Ints) -> NDArray[np.bool_]:
    """Ops costed by what lies beneath: compositions on some devices only, and those that autocast wraps."""
    result = _find_autocast_ops(trace, names, signature, parent)
    concerned = names.are(_SPLIT_ON_SOME_DEVICES.__contains__)
    if concerned.any():
        result |= concerned & _mark_parents(parent, names.are(has_formula))
    return result


def _find_autocast_ops(
    trace: Trace, names: EventNames, signature: NDArray[np.int32], parent: Ints
) -> NDArray[np.bool_]:
    """Ops as the program called them, around the conversion of their inputs and the same op on the results."""
    numbers: dict[bytes, int] = {}
    dims = np.asarray([*(numbers.setdefault(inputs.dims, len(numbers)) for inputs in trace.signatures), NONE], np.int64)
    size = dims[signature]  # NONE (-1) takes the last entry
    name = names.column
    repeated = (parent != NONE) & (name == name[parent]) & (size == size[parent])
    converting = names.are("aten::to".__eq__)
    return _mark_parents(parent, repeated) & _mark_parents(parent, converting)


def _is_op(name: str) -> bool:
    return "::" in name and not name.startswith(("autograd::", "torch::")) and name not in _NO_WORK


_NO_WORK = COMPOSITES | FREE


def _classify_roles(
    names: EventNames,
    parent: Ints,
    kernel_op: Ints,
    owner: Ints,
    call_of: Ints,
    calls: list[CostedCall],
) -> NDArray[np.int8]:
    """Classify roles: work without a formula is what launched kernels itself, an op without working ops beneath, and
    compiled code.

    All else without a cost is what surrounds work. The own time of a compiled graph is that of its kernels where
    those were not recorded.
    """
    compiled = names.are(is_compiled_kernel)
    graph = names.are(is_compiled_graph) & ~_mark_parents(parent, compiled)
    launching = np.zeros(len(parent), np.bool_)
    launching[kernel_op[kernel_op != NONE]] = True
    op = names.are(_is_op)
    if not names.are(lambda name: "::" in name).any():  # other writers' ops have no namespaces
        op[:] = True
    leaf = ~_mark_parents(parent, np.ones(len(parent), np.bool_))
    working = compiled | graph | launching | (call_of != NONE) | (op & leaf)
    around = np.zeros(len(parent), np.bool_)
    for level in reversed(list(_walk_levels(parent))):
        working[level] |= op[level] & ~around[level]
        nested = level[parent[level] != NONE]
        around[parent[nested[working[nested] | around[nested]]]] = True
    role = np.where(working, OpRole.UNMODELED, OpRole.OVERHEAD).astype(np.int8)
    role[owner != NONE] = OpRole.INSIDE
    own = np.flatnonzero(call_of != NONE)
    exchanging = np.asarray([costed.call.name.startswith(COLLECTIVES) for costed in calls], np.bool_)
    role[own] = np.where(exchanging[call_of[own]], OpRole.COMMUNICATION, OpRole.COSTED)
    return role
