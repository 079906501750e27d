"""What of the memory is the training state: its storages now, and its tensors wherever their storages move."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from perfkit.allocations import BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER, UNKNOWN
from perfkit.capture.memory.labels import Owner
from perfkit.capture.memory.modules import unwrapped
from perfkit.capture.tensors import add_block, optimizer_tensors, plain_parts
from perfkit.record import Block


def owners(model: nn.Module, optimizer: Optimizer | None) -> dict[int, Owner]:
    """What the tensors of the training state are, by their `_cdata`."""
    found = {_identity(each): Owner(PARAMETER, unwrapped(name)) for name, each in model.named_parameters()}
    found |= {_identity(each): Owner(BUFFER, unwrapped(name)) for name, each in model.named_buffers()}
    if optimizer is not None:
        found |= {_identity(each): Owner(OPTIMIZER_STATE, name) for name, each in optimizer_tensors(optimizer)}
    return found


@contextmanager
def watched_gradients(model: nn.Module, found: dict[int, Owner], blocks: dict[int, Block]) -> Iterator[None]:
    """While entered, every optimizer's step adds the gradients it is given to `found`, and their storages to `blocks`.

    Gradients exist between backward and the update only, so that is when they must be looked at.
    """
    names = {_identity(parameter): unwrapped(name) for name, parameter in model.named_parameters()}

    def look(optimizer: Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    name = names.get(_identity(parameter), "")
                    gradient = _local(parameter.grad)
                    found[gradient._cdata] = Owner(GRADIENT, name)
                    for part in plain_parts(gradient):
                        add_block(blocks, part, GRADIENT, name)

    handle = register_optimizer_step_pre_hook(look)
    try:
        yield
    finally:
        handle.remove()


def other_blocks(device: torch.device, ours: Sequence[Block], harness: frozenset[int]) -> list[Block]:
    """Storages on `device` of all tensors that Python holds beside `ours`: alive, and for nothing that is known.

    Args:
        device: the training device.
        ours: those of the training state.
        harness: addresses of what the harness itself holds, which are left out.
    """
    seen = harness | {block.address for block in ours}
    found: dict[int, Block] = {}
    for each in gc.get_objects():
        # Exactly these: subclasses (fake, functional and wrapped tensors) need not have a storage of their own.
        if type(each) in (torch.Tensor, nn.Parameter) and each.device == device and not each.is_sparse:
            storage = each.untyped_storage()
            if storage.data_ptr() not in seen:
                add_block(found, each, UNKNOWN, "a tensor outside of the training state")
    return list(found.values())


def _identity(tensor: torch.Tensor) -> int:
    identity: int = _local(tensor)._cdata
    return identity


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """The very tensor that ops on a DTensor are given on this rank, not a view of it; any other tensor as it is."""
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local
