"""How many bytes a forward pass keeps for the backward pass."""

from collections.abc import Callable

import torch
from torch import nn

from perfkit.capture.tensors import local


def saved_tensor_bytes(model: nn.Module, forward: Callable[[], torch.Tensor], device: torch.device) -> int:
    """Bytes of the distinct storages on `device` that `forward` saves for backward, without parameters and buffers.

    Counts with `torch.autograd.graph.saved_tensors_hooks`, which see what an eager graph or a compiled one
    saves. Tensors that inner hooks take away (checkpointing, offloading) are not seen, which is the point.
    """
    own = {local(tensor).untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    sizes: dict[int, int] = {}
    kept: list[torch.Tensor] = []  # keeps addresses from being reused while they are counted

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        plain = local(tensor).detach()
        if plain.device.type == device.type and plain.untyped_storage().data_ptr() not in own:
            sizes[plain.untyped_storage().data_ptr()] = plain.untyped_storage().nbytes()
            kept.append(plain)
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward()
    return sum(sizes.values())
