"""Bytes of what a checkpoint saves: a rank's part of parameters and optimizer state, and all of it."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from perfkit.instruments.training.tensors import list_optimizer_tensors
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.techniques.activations.paged_optimizer import get_local_optimizer
from perfkit.techniques.activations.paged_tensors import get_local_part


class SavedState(NamedTuple):
    """Bytes of a checkpoint.

    Attributes:
        own: parameters, persistent buffers and optimizer state that this rank holds.
        whole: those of all ranks, each once; of tied parameters that are split, each name's, since each is gathered.
        largest_own: the largest tensor of this rank.
        largest: the largest tensor, whole.
    """

    own: int = 0
    whole: int = 0
    largest_own: int = 0
    largest: int = 0

    @property
    def is_split(self) -> bool:
        """True if a rank holds but a part."""
        return self.whole > self.own


def measure_saved_state(trained: TrainedModels, parameters: int, trainable: int) -> SavedState:
    """The state of a model of so many parameters, of which so many are trained, before it was split."""
    model = [tensor for _, tensor in trained.named_parameters()]
    buffers = [*_list_persistent_buffers(trained.models.values())]
    state = [tensor for _, tensor in list_optimizer_tensors(trained.optimizers)]
    updated = {
        parameter
        for optimizer in trained.optimizers
        for group in get_local_optimizer(optimizer).param_groups
        for parameter in group["params"]
    }
    # Of a stage of a pipeline, or an optimizer of a part of the parameters, in proportion to the parameters it lacks.
    model_share, state_share = _compute_share(parameters, model), _compute_share(trainable, updated)
    whole = (
        model_share * _sum_whole([*model, *_list_tied(trained.models.values())])
        + _sum_whole(buffers)
        + state_share * _sum_whole(state)
    )
    tensors = [*model, *buffers, *state]
    own = [get_local_part(tensor).nbytes for tensor in tensors]
    return SavedState(
        own=sum(own),
        whole=int(whole),
        largest_own=max(own, default=0),
        largest=max((_get_whole_bytes(tensor) for tensor in tensors), default=0),
    )


def _list_persistent_buffers(models: Iterable[nn.Module]) -> Iterator[torch.Tensor]:
    for module in (part for model in models for part in model.modules()):
        for name, buffer in module.named_buffers(recurse=False):
            if name not in module._non_persistent_buffers_set:
                yield buffer


def _list_tied(models: Iterable[nn.Module]) -> Iterator[torch.Tensor]:
    """Sharded parameters under their further names: a state dict has a DTensor for each, gathered and written alone."""
    for model in models:
        seen: set[torch.Tensor] = set()
        for _, parameter in model.named_parameters(remove_duplicate=False):
            if parameter in seen and isinstance(parameter, DTensor):
                yield parameter
            seen.add(parameter)


def _compute_share(total: int, tensors: Iterable[torch.Tensor]) -> float:
    known = sum(tensor.numel() for tensor in tensors)
    return max(1.0, total / known) if known else 1.0


def _sum_whole(tensors: Iterable[torch.Tensor]) -> int:
    return sum(map(_get_whole_bytes, tensors))


def _get_whole_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor, of a DTensor those of all its shards."""
    return tensor.numel() * tensor.element_size()
