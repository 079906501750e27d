"""Finds the training state in memory: its current storages, and its tensors wherever their storages move."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.core.allocations import BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER, UNKNOWN, InitialBlock
from perfkit.instruments.memory.block_labels import Gradients, SeenStorage, TensorOwner
from perfkit.instruments.memory.holders import find_held_tensors
from perfkit.instruments.training.live_objects import find_instances
from perfkit.instruments.training.tensors import add_block, has_storage, list_optimizer_tensors, list_plain_parts
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.techniques.activations.paged_optimizer import get_local_optimizer


def find_owners(trained: TrainedModels) -> dict[int, TensorOwner]:
    """Find the owners of the training state's tensors, by `_cdata`."""
    tensors = (
        (PARAMETER, trained.named_parameters()),
        (BUFFER, trained.named_buffers()),
        (OPTIMIZER_STATE, list_optimizer_tensors(trained.optimizers)),
    )
    return {_get_identity(tensor): TensorOwner(category, name) for category, named in tensors for name, tensor in named}


@contextmanager
def watch_gradients(trained: TrainedModels, now: Callable[[], int] = time.time_ns) -> Iterator[Gradients]:
    """Yield a mapping to which every optimizer step adds the current gradients by address, inside this context.

    Gradients may exist only between backward and update, so they are read there; with a closure, whose backward runs
    inside the step, right after the update.
    """
    gradients: Gradients = defaultdict(list)

    def look(optimizer: Optimizer, *_: Any) -> None:
        # Other optimizers' gradients, too: they may be cleared before their own step.
        named = {parameter: name for name, parameter in trained.named_parameters()}
        parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
        blocks: dict[int, InitialBlock] = {}
        for parameter, name in (dict.fromkeys(parameters, "") | named).items():
            if parameter.grad is not None:
                for part in list_plain_parts(_get_local(parameter.grad)):
                    add_block(blocks, part, GRADIENT, name)
        now_ns = now()
        for address, block in blocks.items():
            gradients[address].append(SeenStorage(now_ns, block))

    # A wrapped optimizer may be stepped alone. Not by torch's hooks for all optimizers: this may be run from
    # one of them, and while they are called their table must not change.
    optimizers = {optimizer for outer in trained.optimizers for optimizer in (outer, get_local_optimizer(outer))}
    handles = [optimizer.register_step_pre_hook(look) for optimizer in optimizers]
    handles += [optimizer.register_step_post_hook(look) for optimizer in optimizers]
    try:
        yield gradients
    finally:
        for handle in handles:
            handle.remove()


def find_other_blocks(
    device: torch.device, ours: Sequence[InitialBlock], harness: frozenset[int]
) -> list[InitialBlock]:
    """Storages on `device` of all other tensors in Python, with their purpose if `perfkit.instruments.memory.holders`
    knows it.

    Args:
        device: the training device.
        ours: storages of the training state.
        harness: addresses of the harness's own storages, which are excluded.
    """
    addresses = harness | {block.address for block in ours}
    blocks: dict[int, InitialBlock] = {}

    def add(tensor: torch.Tensor, category: str, name: str) -> None:
        # Exactly these types: subclasses (fake, functional, wrapped tensors) may have no storage of their own.
        if (
            type(tensor) in (torch.Tensor, nn.Parameter)
            and has_storage(tensor)
            and tensor.device == device
            and tensor.untyped_storage().data_ptr() not in addresses
        ):
            add_block(blocks, tensor, category, name)

    for category, name, tensor in find_held_tensors():
        add(tensor, category, name)
    for item in find_instances(torch.Tensor):
        add(item, UNKNOWN, "a tensor outside the training state")
    return list(blocks.values())


def _get_identity(tensor: torch.Tensor) -> int:
    identity: int = _get_local(tensor)._cdata
    return identity


def _get_local(tensor: torch.Tensor) -> torch.Tensor:
    """A DTensor's local tensor on this rank, not a view of it; other tensors unchanged."""
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local
