"""Knows the values of a batch's integers in a rehearsed step: those that sparse gradients have as indices.

All other tensors have none. Values follow the ops that a model applies to them: views, sums with other integers, joins.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from perfkit.core.note import Note, make_note
from perfkit.cost.torch_dispatch import disable_modes, tree_leaves, tree_map_only
from perfkit.cost.torch_fakes import FakeTensor
from perfkit.workloads.workload import Batch


class IndexValues:
    """Real tensors by the fake ones that stand for them."""

    def __init__(self) -> None:
        self._known: Any = WeakIdKeyDictionary()
        self._is_guessed = False

    def add_batch(self, fake: Batch, real: Batch) -> None:
        """Add the integers of a batch."""
        for name, tensor in real.items():
            if _is_integer(tensor) and fake[name].shape == tensor.shape:
                self._known[fake[name]] = tensor

    def follow_op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Apply an op on fake tensors to the values of its arguments, if all are known and its results are integers."""
        if not self._known:
            return
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not any(tensor in self._known for tensor in given):
            return
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, FakeTensor)]
        if not made or not all(map(_is_integer, made)):
            return
        if torch.Tag.nondeterministic_seeded in func.tags or not all(tensor in self._known for tensor in given):
            if func._schema.is_mutable:
                self._known.pop(args[0], None)
            return
        with disable_modes():
            real_args, real_kwargs = tree_map_only(FakeTensor, lambda fake: self._known[fake], (args, kwargs))
            real = func(*real_args, **real_kwargs)
        values = [leaf for leaf in tree_leaves(real) if isinstance(leaf, torch.Tensor)]
        for fake, value in zip(made, values, strict=True):
            self._known[fake] = value

    def share_indices(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Give a tensor the values of another that has the same indices; a sparse tensor's are those of its indices."""
        if source in self._known:
            self._known[target] = self._known[source]
        else:
            self._known.pop(target, None)

    def join_indices(self, target: torch.Tensor, sources: Iterable[torch.Tensor]) -> None:
        """Give a sparse tensor the indices of several, one after the other."""
        values = [self._known.get(source) for source in sources]
        if all(value is not None for value in values):
            with disable_modes():
                self._known[target] = torch.cat(values, 1)

    def count_distinct(self, sparse: torch.Tensor) -> int:
        """Count the distinct indices of a sparse tensor of one sparse dimension; unknown ones all differ."""
        values = self._known.get(sparse)
        if values is None:
            self._is_guessed = True
            return min(sparse._nnz(), sparse.shape[0])
        with disable_modes():
            return int(values.unique().numel())

    def count_true(self, mask: torch.Tensor) -> int:
        """Count the true elements of a mask; of an unknown one all are."""
        values = self._known.get(mask)
        if values is None:
            self._is_guessed = True
            return mask.numel()
        with disable_modes():
            return int(values.sum())

    def pick_indices(self, target: torch.Tensor, source: torch.Tensor, mask: torch.Tensor) -> None:
        """Give a tensor the values of another where a mask is true."""
        if source in self._known and mask in self._known:
            with disable_modes():
                self._known[target] = self._known[source][self._known[mask]]

    def list_notes(self) -> list[Note]:
        """A note if indices were unknown."""
        text = "the rows of a sparse gradient depend on unknown indices: assumed to be all different, an upper bound"
        return [make_note("plan.sparse_rows", text)] if self._is_guessed else []


def has_sparse_gradients(model: nn.Module) -> bool:
    """True if the gradient of one of a model's embeddings is sparse."""
    return any(isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse for module in model.modules())


def _is_integer(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not (tensor.is_floating_point() or tensor.is_complex())
