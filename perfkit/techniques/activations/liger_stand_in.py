"""Stands in for Liger's kernels where a plan cannot run Triton: functions without values that make the same tensors.

Of liger-kernel 0.8.5: `fused_linear_cross_entropy_forward` (liger_kernel/ops/fused_linear_cross_entropy.py), whose
forward makes both gradients, and the logits of a chunk of tokens at a time, in one buffer; and beside it rms_norm.py,
rope.py and swiglu.py. An element-wise op stands for each of their kernels.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

# Parts of the gradient of a norm's weight: Liger makes one per multiprocessor, of which an H100 has 132. They are freed
# within the op.
_PROGRAMS = 132


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


def replace_layers(model: nn.Module, modeling: ModuleType) -> None:
    """Replace the norms and gated layers of a Transformers model, and the rotary embedding in its module."""
    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            module.forward = _make_norm(module)
        elif name.endswith("MLP"):
            module.forward = _make_gated_layer(module)
    modeling.apply_rotary_pos_emb = _rotate  # type: ignore[attr-defined]


def _make_norm(module: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    def normalize(x: torch.Tensor) -> torch.Tensor:
        normalized: torch.Tensor = _Norm.apply(x, module.weight)  # type: ignore[no-untyped-call]
        return normalized

    return normalize


def _make_gated_layer(module: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        product = _Gate.apply(module.gate_proj(x), module.up_proj(x))  # type: ignore[no-untyped-call]
        output: torch.Tensor = module.down_proj(product)
        return output

    return run


def _rotate(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *_: Any, **__: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    rotated: tuple[torch.Tensor, torch.Tensor] = _Rotation.apply(q, k, cos, sin)  # type: ignore[no-untyped-call]
    return rotated


class _Norm(torch.autograd.Function):
    """`LigerRMSNormFunction`, in place and with Llama's casts."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        rows = x.contiguous().view(-1, x.shape[-1])
        normalized = rows * 1
        ctx.save_for_backward(rows, weight, torch.empty(rows.shape[0], dtype=torch.float32))
        return normalized.view(x.shape)

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        rows, weight, _ = ctx.saved_tensors
        gradient = outer[0].contiguous()
        parts = torch.empty(_PROGRAMS, rows.shape[1], dtype=torch.float32) if ctx.needs_input_grad[1] else None
        gradient.view(rows.shape).mul_(rows)
        return gradient, None if parts is None else parts.sum(0).to(weight.dtype)


class _Rotation(torch.autograd.Function):
    """`LigerRopeFunction`: queries and keys are turned where they are, if they lie as a linear layer leaves them."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(cos.contiguous(), sin.contiguous())
        return _turn(q), _turn(k)

    @staticmethod
    def backward(_ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        return _turn(outer[0]), _turn(outer[1]), None, None


def _turn(heads: torch.Tensor) -> torch.Tensor:
    return heads.transpose(1, 2).contiguous().mul_(1).transpose(1, 2)


class _Gate(torch.autograd.Function):
    """`LigerSiLUMulFunction`: gradients are written over what was kept."""

    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        ctx.save_for_backward(gate, up)
        return gate * up

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gate, up = ctx.saved_tensors
        gradient = outer[0].contiguous()
        return gate.mul_(gradient), up.mul_(gradient)
