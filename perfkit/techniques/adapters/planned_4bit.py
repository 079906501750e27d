"""Stands in for bitsandbytes' Linear4bit in plans, which rounds no fake tensor: with the sizes of its tensors."""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

_BLOCK, _SCALES = 64, 256  # weights of a scale in 8 bits, and scales of one in fp32 (arXiv 2305.14314, section 3)


class PlannedLinear4bit(nn.Linear):
    """A linear layer with a frozen weight in packed 4 bits and its scales."""

    def __init__(self, layer: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        weight = layer.weight
        count = weight.numel()
        packed = torch.empty((count + 1) // 2, 1, dtype=torch.uint8, device=weight.device)
        self.weight = nn.Parameter(packed, requires_grad=False)
        scales = -(-count // _BLOCK)
        self.register_buffer("scales", torch.empty(scales, dtype=torch.uint8, device=weight.device))
        self.register_buffer("scales_of_scales", torch.empty(-(-scales // _SCALES), device=weight.device))
        self.bias = layer.bias

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The product with the unpacked weight, which is not kept for backward."""
        bias = None if self.bias is None else self.bias.to(input.dtype)
        shape = (self.out_features, self.in_features)
        product: torch.Tensor = _PackedProduct.apply(input, self.weight, bias, shape)  # type: ignore[no-untyped-call]
        return product


class _PackedProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None, shape: tuple[int, int]
    ) -> torch.Tensor:
        ctx.save_for_backward(packed)
        ctx.shape, ctx.dtype = shape, features.dtype
        return F.linear(features, _unpack(packed, shape, features.dtype), bias)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (packed,) = ctx.saved_tensors
        return gradients[0] @ _unpack(packed, ctx.shape, ctx.dtype), None, None, None


def _unpack(packed: torch.Tensor, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    """A weight in `dtype`, of values that mean nothing: one pass reads the packed bytes and writes it."""
    count = shape[0] * shape[1]
    pairs = torch.empty(len(packed), 2, dtype=dtype, device=packed.device).copy_(packed)
    return pairs.flatten()[:count].view(shape)
