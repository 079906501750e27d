"""Costs the gradient of FBGEMM's pooled lookups with fused row-wise Adagrad.

The node of autograd is given the gradient of the pooled rows alone: how many indices there were, the lookups of the
trace with an output of that shape tell. How many distinct rows these name is data: at least one, at most all.

Source: fbgemm_gpu/codegen/training/backward/embedding_backward_split_template.cu, and
codegen/training/optimizer/rowwise_adagrad: rows that occur several times are added up before they are updated once.
"""

from collections.abc import Sequence
from typing import NamedTuple

from perfkit.cost.calls.args import (
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_element_size,
    get_integer,
    get_optional_tensor,
    get_tensor,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg

NODE = "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>"
LOOKUP = "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function"

_SOURCE = "gradient of embedding tables: repeated rows depend on data"
_UPDATE = 4  # FLOPs an element of a distinct row: its square, their sum, the step's product and difference


class _TableLookup(NamedTuple):
    """A lookup call: what it gathers, and the shape of its output."""

    positions: float  # bytes of indices and offsets
    indices: int
    rows: int
    width: int
    element: float
    weighted: bool
    batch: int
    total: int


def cost_table_gradient(call: OpCall, lookups: Sequence[OpCall]) -> OpCost | None:
    """The cost of `NODE`, from all calls of `LOOKUP` in the trace; None where none has such an output."""
    gradient = get_optional_tensor(call.args, 0)
    if gradient is None or len(gradient.shape) != 2:
        return None
    matches = [lookup for lookup in map(_parse_lookup, lookups) if lookup is not None]
    matches = [lookup for lookup in matches if (lookup.batch, lookup.total) == gradient.shape]
    if not matches:
        return None
    least = min((_cost_lookup_gradient(gradient, lookup, 1) for lookup in matches), key=_get_bytes)
    most = max(
        (_cost_lookup_gradient(gradient, lookup, min(lookup.indices, lookup.rows)) for lookup in matches),
        key=_get_bytes,
    )
    return least._replace(most_flops=most.flops, most_bytes=most.bytes)


def _get_bytes(cost: OpCost) -> float:
    return cost.bytes or 0.0


def _cost_lookup_gradient(gradient: TensorArg, lookup: _TableLookup, distinct: int) -> OpCost:
    """Cost the gradient: each index adds its bag's gradient (times its weight) to its row's; distinct rows and their
    state are read and written."""
    added = lookup.indices * lookup.width * (2 if lookup.weighted else 1)
    updated = distinct * lookup.width
    nbytes = (
        count_read_bytes(gradient)
        + lookup.positions
        + 2 * (updated * lookup.element + count_output_bytes(distinct, "fp32"))
    )
    return make_vector_cost(added + _UPDATE * updated, nbytes, "fp32", _SOURCE)


def _parse_lookup(call: OpCall) -> _TableLookup | None:
    """`(host_weights, dev_weights, uvm_weights, cache, placements, weights_offsets, D_offsets, total_D, max_D, ...,
    indices (11), offsets (12), pooling_mode, indice_weights (14), ..., state (20), ...)`; rows are as wide as on
    average."""
    args = call.args
    try:
        weights, indices, offsets, state = (get_tensor(args, index) for index in (1, 11, 12, 20))
        tables = max(get_tensor(args, 6).shape[0] - 1, 1)
        rows = numel(state)
        width = numel(weights) // rows if rows and numel(weights) % rows == 0 else get_integer(args, 7) // tables
    except (UnmodeledError, IndexError):
        return None
    scales = get_optional_tensor(args, 14)
    weighted = scales is not None and numel(scales) > 0
    return _TableLookup(
        positions=count_read_bytes(indices, offsets, scales),
        indices=numel(indices),
        rows=rows,
        width=width,
        element=get_element_size(weights.dtype),
        weighted=weighted,
        batch=(offsets.shape[0] - 1) // tables,
        total=width * tables,
    )
