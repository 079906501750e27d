"""Runs ops on sparse fake tensors by their parts: indices and values, as torch's kernels allocate them.

torch's own fake kernels lose these parts. Sparse tensors have one sparse dimension, as the gradients of embeddings do.
Ops that none of torch's optimizers applies to such gradients are refused.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from perfkit.core.errors import UnavailableError
from perfkit.cost.torch_dispatch import find_autograd_node, tree_leaves
from perfkit.cost.torch_fakes import FakeTensor
from perfkit.plan.rehearsal.sparse.index_values import IndexValues

_aten = torch.ops.aten
_MAKE = _aten._sparse_coo_tensor_with_dims_and_tensors.default
# Ops whose fake kernels keep the parts, and make no memory.
_NATIVE = (
    _MAKE, _aten._indices.default, _aten._values.default, _aten.indices.default, _aten.values.default,
    _aten._nnz.default, _aten.detach.default, _aten.is_coalesced.default, _aten._coalesced_.default,
    _aten.sparse_dim.default, _aten.dense_dim.default, _aten._has_compatible_shallow_copy_type.default,
)  # fmt: skip
_OF_RANKS = ("c10d", "fsdp")
_HAVE_SAME_INDICES = (_aten._indices.default, _aten.indices.default, _aten.detach.default)
_BAG_BACKWARD = _aten._embedding_bag_backward.default
_PICK = _aten.index.Tensor
_ACCUMULATES = "torch::autograd::AccumulateGrad"
_EMBEDS = "EmbeddingBackward0"
_MEAN = 1  # the mode of a bag


class SparseGradients:
    """Ops on sparse tensors on a CPU, or as on a GPU (`on_gpu`)."""

    def __init__(self, values: IndexValues, *, on_gpu: bool) -> None:
        self._values = values
        self._on_gpu = on_gpu
        self._ops: dict[Any, Callable[..., Any]] = {
            _aten.clone.default: self._clone,
            _aten._coalesce.default: self._coalesce,
            _aten.sparse_mask.default: self._mask,
            _aten.add.Tensor: self._add,
            _aten.add_.Tensor: self._add_in_place,
        }

    def find_op(self, func: Any, args: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Find the function to call for an op, by ops on indices and values; None if its fake kernel can be called.

        Raises `UnavailableError` for an op on sparse tensors of unknown memory.
        """
        if func is _MAKE:
            if args[0] != 1:
                raise UnavailableError(
                    f"a sparse tensor of {args[0]} sparse dimensions cannot be planned, only one of rows, the gradient "
                    "of an embedding: measure it with perfkit bench"
                )
            return None
        if func is _BAG_BACKWARD:
            return self._make_bag_gradient if args[9] else None
        if func is _PICK:
            return self._pick_rows if _is_node(_EMBEDS) else None
        if func.namespace in _OF_RANKS and any(map(is_sparse_fake, tree_leaves(args))):
            raise UnavailableError(
                f"{func._schema.name}: ranks exchange sparse gradients, whose size depends on all ranks' batches: "
                "measure it with perfkit bench"
            )
        if not any(map(is_sparse_fake, args)) or func in _NATIVE:
            return None
        if func not in self._ops:
            raise UnavailableError(
                f"{func._schema.name} of a sparse tensor has a size that a plan does not know: measure it with "
                "perfkit bench"
            )
        return self._ops[func]

    def follow_op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Follow the values of indices through an op."""
        if func is _MAKE:
            self._values.share_indices(result, args[3])
        elif func in _HAVE_SAME_INDICES and is_sparse_fake(args[0]):
            self._values.share_indices(result, args[0])
        else:
            self._values.follow_op(func, args, kwargs, result)

    def _pick_rows(self, rows: torch.Tensor, masks: list[torch.Tensor]) -> torch.Tensor:
        """The rows of a gradient, or their indices, that are not those of the padding."""
        (mask,) = masks
        places = torch.empty(mask.dim(), self._values.count_true(mask), dtype=torch.int64)
        picked = rows.flatten(0, mask.dim() - 1).index_select(0, places[0])
        self._values.pick_indices(picked, rows, mask)
        return picked

    def _make_bag_gradient(
        self,
        gradient: torch.Tensor,
        indices: torch.Tensor,
        offsets: torch.Tensor,
        bags: torch.Tensor,
        sizes: torch.Tensor,
        _most: torch.Tensor,
        rows: int,
        _scales: bool,
        mode: int,
        *_: Any,
    ) -> torch.Tensor:
        """As `_embedding_bag_backward` and `_embedding_bag_sparse_backward` (ATen/native/EmbeddingBag.cpp)."""
        if not bags.numel():
            starts = offsets.new_zeros(indices.shape[0] + 1)
            torch.ones_like(offsets)
            bags = starts.cumsum(0)[:-1]
            del starts
        values = gradient.index_select(0, bags)
        if mode == _MEAN:
            sizes = sizes.to(values.dtype)
            values *= (1 / sizes).index_select(0, bags).unsqueeze(1)
        return self._make((rows, values.shape[1]), indices.view(1, -1), values, coalesced=False)

    def _clone(self, sparse: torch.Tensor, **_: Any) -> torch.Tensor:
        if _is_node(_ACCUMULATES):
            # Of a real gradient to which it alone refers, torch's engine takes the parts (accumulate_grad.h).
            return self._make_like(sparse, sparse._indices(), sparse._values())
        return self._make_like(sparse, sparse._indices().clone(), sparse._values().clone())

    def _coalesce(self, sparse: torch.Tensor) -> torch.Tensor:
        """As `_coalesce_sparse_cpu` (ATen/native/sparse/SparseTensor.cpp) and `_coalesce_sparse_cuda`
        (ATen/native/sparse/cuda/SparseCUDATensor.cu)."""
        rows = self._values.count_distinct(sparse)
        indices, values = sparse._indices(), sparse._values().contiguous()
        if self._on_gpu:
            indices = indices.clone()
            numbers = torch.empty_like(indices), torch.empty_like(indices)  # places, and starts of equal rows
            sort = torch.empty_like(indices), torch.empty_like(indices)  # thrust's second buffers of keys and places
            del sort
            values = values.new_empty(rows, *values.shape[1:])
            del numbers
        else:
            flat = indices.squeeze(0)
            indices, values = torch.empty_like(indices), torch.empty_like(values)
            order = flat.sort()
            torch.arange(flat.numel())  # which the sort makes for itself
            del order
        return self._make(sparse.shape, indices[:, :rows], values[:rows], coalesced=True, source=sparse)

    def _mask(self, dense: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """As the product of `dense` and a sparse tensor of ones: `_mul_dense_sparse_out`
        (ATen/native/sparse/SparseTensorMath.cpp)."""
        if not mask.is_coalesced():
            raise UnavailableError("a mask with repeated rows cannot be planned: measure it with perfkit bench")
        picked = dense[mask._indices()[0]]
        indices = mask._indices().clone()
        return self._make(mask.shape, indices, picked * 1, coalesced=True, source=mask)

    def _add(self, first: torch.Tensor, second: torch.Tensor, alpha: float = 1) -> torch.Tensor:
        if not is_sparse_fake(first):
            return (first.clone() if alpha else first).add_(second, alpha=alpha)
        return self._join(first, second)

    def _add_in_place(self, target: torch.Tensor, other: torch.Tensor, alpha: float = 1) -> torch.Tensor:
        if is_sparse_fake(target):
            joined = self._join(target, other)
            target.data = joined
            self._values.share_indices(target, joined)
        elif self._on_gpu and alpha != 1 and not other.is_coalesced():
            other._values() * alpha  # `add_out_dense_sparse_cuda`: before rows are added one by one
        return target

    def _join(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """The sum of two sparse tensors: the rows of both, one after the other."""
        indices = torch.cat((first._indices(), second._indices()), 1)
        values = torch.cat((first._values(), second._values()))
        joined = self._make(first.shape, indices, values, coalesced=False)
        self._values.join_indices(joined, (first, second))
        return joined

    def _make_like(self, sparse: torch.Tensor, indices: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return self._make(sparse.shape, indices, values, coalesced=sparse.is_coalesced(), source=sparse)

    def _make(
        self,
        shape: Sequence[int],
        indices: torch.Tensor,
        values: torch.Tensor,
        *,
        coalesced: bool,
        source: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """A sparse tensor of these parts; its rows have the values of `source`, else of `indices`."""
        made: torch.Tensor = _MAKE(
            1, values.dim() - 1, shape, indices, values,
            dtype=values.dtype, layout=torch.sparse_coo, device=values.device, is_coalesced=coalesced,
        )  # fmt: skip
        if source is not None:
            self._values.share_indices(made, source)
        return made


def _is_node(name: str) -> bool:
    node = find_autograd_node()
    return node is not None and node.name() == name


def is_sparse_fake(value: Any) -> bool:
    """True if a value is a sparse fake tensor."""
    return isinstance(value, FakeTensor) and value.layout is torch.sparse_coo
