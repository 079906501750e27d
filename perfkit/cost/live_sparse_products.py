"""Costs products of a sparse and a dense tensor while they run: only then the number of stored elements is known."""

from collections.abc import Sequence
from typing import Any

import torch

from perfkit.cost.calls.dtypes import BY_TORCH_NAME
from perfkit.cost.calls.op_call import ComputeUnit, OpCost

# The index of the first factor among the arguments of each op; the second factor follows.
_FIRST_FACTOR = {
    **dict.fromkeys(("aten::mm", "aten::mv", "aten::bmm"), 0),
    **dict.fromkeys(("aten::addmm", "aten::addmv", "aten::baddbmm", "aten::_sparse_addmm"), 1),
}


def is_sparse(value: Any) -> bool:
    """True for a tensor that stores a part of its elements."""
    return isinstance(value, torch.Tensor) and (value.layout is torch.sparse_coo or value.layout in _COMPRESSED)


_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def cost_sparse_product(name: str, args: Sequence[Any]) -> OpCost | None:
    """The cost of an op with sparse operands, None for one that is no product with a dense factor.

    2 FLOPs for each stored element and each row or column of the dense factor; bytes are not modeled.
    """
    index = _FIRST_FACTOR.get(name)
    if index is None or len(args) < index + 2:
        return None
    first, second = args[index : index + 2]
    if is_sparse(first) == is_sparse(second):  # of two sparse factors, where elements meet decides
        return None
    stored, lines = (
        (_count_stored(first), second.shape[first.dim() - 1 :])
        if is_sparse(first)
        else (_count_stored(second), first.shape[-2:-1])
    )
    dtype = BY_TORCH_NAME.get(str(first.dtype).removeprefix("torch."))
    flops = 2.0 * stored * lines.numel()
    return OpCost(flops, None, ComputeUnit.MATRIX, dtype.name if dtype is not None else "", "stored elements")


def _count_stored(tensor: torch.Tensor) -> int:
    return (tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()).numel()
