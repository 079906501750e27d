"""The gradient of FBGEMM's pooled lookups with row-wise Adagrad fused into it.

The node of autograd is given the gradient of the pooled rows alone: how many indices there were, the lookups of the
trace with an output of that shape tell. How many distinct rows these name is data: at least one, at most all.

Source: fbgemm_gpu/codegen/training/backward/embedding_backward_split_template.cu, and
codegen/training/optimizer/rowwise_adagrad: rows that occur several times are added up before they are updated once.
"""

from collections.abc import Sequence
from typing import NamedTuple

from perfkit.cost.args import (
    UnmodelledError,
    integer,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    size_of,
    tensor,
    vector,
)
from perfkit.cost.call import OpCall, OpCost, TensorArg

NODE = "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>"
LOOKUP = "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function"

_SOURCE = "gradient of embedding tables: which rows repeat is data"
_UPDATE = 4  # FLOPs an element of a distinct row: its square, their sum, the step's product and difference


class _Lookup(NamedTuple):
    """A call of the lookup: what it gathers, and the shape of its output."""

    positions: float  # bytes of indices and offsets
    indices: int
    rows: int
    width: int
    element: float
    weighted: bool
    batch: int
    total: int


def table_gradient(call: OpCall, lookups: Sequence[OpCall]) -> OpCost | None:
    """The cost of `NODE`, from all calls of `LOOKUP` in the trace; None where none of them has such an output."""
    gradient = optional_tensor(call.args, 0)
    if gradient is None or len(gradient.shape) != 2:
        return None
    found = [lookup for lookup in map(_lookup, lookups) if lookup is not None]
    found = [lookup for lookup in found if (lookup.batch, lookup.total) == gradient.shape]
    if not found:
        return None
    least = min((_cost(gradient, lookup, 1) for lookup in found), key=_bytes)
    most = max((_cost(gradient, lookup, min(lookup.indices, lookup.rows)) for lookup in found), key=_bytes)
    return least._replace(most_flops=most.flops, most_bytes=most.bytes)


def _bytes(cost: OpCost) -> float:
    return cost.bytes or 0.0


def _cost(gradient: TensorArg, lookup: _Lookup, distinct: int) -> OpCost:
    """Each index adds its bag's gradient (times its weight) to its row's; a distinct row and its state are read and
    written."""
    added = lookup.indices * lookup.width * (2 if lookup.weighted else 1)
    updated = distinct * lookup.width
    nbytes = read_bytes(gradient) + lookup.positions + 2 * (updated * lookup.element + out_bytes(distinct, "fp32"))
    return vector(added + _UPDATE * updated, nbytes, "fp32", _SOURCE)


def _lookup(call: OpCall) -> _Lookup | None:
    """`(host_weights, dev_weights, uvm_weights, cache, placements, weights_offsets, D_offsets, total_D, max_D, ...,
    indices (11), offsets (12), pooling_mode, indice_weights (14), ..., state (20), ...)`; rows are as wide as on
    average."""
    args = call.args
    try:
        weights, indices, offsets, state = (tensor(args, index) for index in (1, 11, 12, 20))
        tables = max(tensor(args, 6).shape[0] - 1, 1)
        rows = numel(state)
        width = numel(weights) // rows if rows and numel(weights) % rows == 0 else integer(args, 7) // tables
    except (UnmodelledError, IndexError):
        return None
    scales = optional_tensor(args, 14)
    weighted = scales is not None and numel(scales) > 0
    return _Lookup(
        positions=read_bytes(indices, offsets, scales),
        indices=numel(indices),
        rows=rows,
        width=width,
        element=size_of(weights.dtype),
        weighted=weighted,
        batch=(offsets.shape[0] - 1) // tables,
        total=width * tables,
    )
