"""Ops that only move data, without FLOPs at any size."""

from perfkit.cost.formulas import constructors, movement

_INDEXING = (
    "index_select gather take index _unsafe_index index_copy index_copy_ index_fill index_fill_ masked_scatter"
    " masked_scatter_ masked_select nonzero nonzero_static _unique _unique2 unique_dim unique_consecutive sort topk"
    " kthvalue repeat_interleave embedding"
)

# Without those that may accumulate, depending on an argument (index_put, scatter).
MOVES = (
    frozenset(movement.FORMULAS) | frozenset(constructors.FORMULAS) | {f"aten::{name}" for name in _INDEXING.split()}
)
