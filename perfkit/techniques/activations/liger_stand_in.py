"""Stands in for Liger's fused linear cross-entropy where a plan cannot run its Triton kernels: the same tensors.

`fused_linear_cross_entropy_forward` of liger-kernel 0.8.5 (liger_kernel/ops/fused_linear_cross_entropy.py): forward
makes both gradients, and the logits of a chunk of tokens at a time, in one buffer.
"""

from typing import Any

import torch


def compute_chunk_tokens(tokens: int, width: int, vocabulary: int) -> int:
    """Tokens of a chunk, of which the logits take about as much as all features."""
    chunks = -(-vocabulary // width)
    power = 1 << (-(-tokens // chunks) - 1).bit_length()
    return min(power, tokens)


def lose_as_liger(features: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A loss of no value with the memory and the products of Liger's; `features` are (tokens, width)."""
    loss: torch.Tensor = _StandIn.apply(features, weight, targets)  # type: ignore[no-untyped-call]
    return loss


class _StandIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: torch.Tensor, weight: torch.Tensor, _targets: torch.Tensor) -> torch.Tensor:
        (tokens, width), vocabulary = features.shape, weight.shape[0]
        chunk = compute_chunk_tokens(tokens, width, vocabulary)
        feature_gradients, weight_gradients = torch.zeros_like(features), torch.zeros_like(weight)
        losses = features.new_zeros(tokens, dtype=torch.float32)
        buffer = features.new_empty(chunk, vocabulary)
        for start in range(0, tokens, chunk):
            part = features[start : start + chunk]
            logits = torch.mm(part, weight.t(), out=buffer[: part.shape[0]])
            logits.mul_(1)  # the kernel that turns logits into their gradients, in place
            feature_gradients[start : start + chunk] = logits @ weight
            torch.addmm(weight_gradients, logits.t(), part, out=weight_gradients)
        ctx.save_for_backward(feature_gradients, weight_gradients)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        feature_gradients, weight_gradients = ctx.saved_tensors
        return feature_gradients.mul_(outer[0]), weight_gradients.mul_(outer[0]), None
