"""Counts the zero weights in the forward pass."""

import torch
from torch import nn

from perfkit.instruments.training.tensors import list_plain_parts
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.compression.prune import LAYERS


@torch.no_grad()
def measure_zero_weight_share(model: nn.Module) -> float | None:
    """Share of the weights of linear layers and convolutions that are zero after the last forward pass.

    Quantized and sparse weights, and those whose memory is elsewhere now, are left out; None where no other is there.
    """
    zeros = count = 0
    for module in model.modules():
        if isinstance(module, LAYERS) and isinstance(module.weight, torch.Tensor):
            weight = get_local_part(module.weight)
            plain = any(part is weight for part in list_plain_parts(weight))
            if plain and weight.is_floating_point() and weight.untyped_storage().nbytes():
                zeros += weight.numel() - int(torch.count_nonzero(weight))
                count += weight.numel()
    return zeros / count if count else None
