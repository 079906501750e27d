"""BERT as the measured program trains it, with Transformers 4.18 and torch before 1.11.

`bert` is a workload for `perfkit plan -w benchmarks/published/encoders.py:bert:KEY=VALUE`.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers.models.bert.modeling_bert import BertSelfAttention

from perfkit import Workload
from perfkit.core.spec import ParamValue
from perfkit.workloads.hf import HuggingFace
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.workload import Batch

_LARGE: dict[str, ParamValue] = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "task": "sequence-classification",
}


class KeptInput(torch.autograd.Function):
    """What it is given, which stays until backward.

    Torch before 1.11 kept the input of a softmax for its dtype (`_softmax_backward_data(grad, result, dim, self)` in
    its derivatives.yaml, `self.scalar_type()` since).
    """

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(scores)
        return scores.view_as(scores)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (_scores,) = ctx.saved_tensors
        return gradient


class FirstSelfAttention(BertSelfAttention):
    """Explicit attention with a mask of zeros in fp32, which Transformers 4.18 makes where none is given."""

    def forward(self, hidden_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length, width = hidden_states.shape
        q, k, v = (
            layer(hidden_states).view(batch, length, self.num_attention_heads, -1).permute(0, 2, 1, 3)
            for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.attention_head_size)
        scores = scores + torch.zeros(batch, 1, 1, length, device=scores.device)
        probabilities = self.dropout(F.softmax(KeptInput.apply(scores), dim=-1))
        return (probabilities @ v).permute(0, 2, 1, 3).reshape(batch, length, width), probabilities


def bert(batch_size: int = 4, seq_len: int = 512) -> Workload:
    """BERT large with a head for classification, and gradients that stay from the first backward on.

    Torch before 2.0 fills gradients with zeros and keeps them.
    """
    given = HuggingFace.parse("BertConfig", {**_LARGE, "batch_size": batch_size, "seq_len": seq_len}).build()
    return replace(given, build_model=partial(_build_model, given), loss=partial(_compute_loss, given, {}))


def _build_model(given: Workload) -> nn.Module:
    model = given.build_model()
    for module in model.modules():
        if isinstance(module, BertSelfAttention):
            module.__class__ = FirstSelfAttention
    return model


def _compute_loss(
    given: Workload, kept: dict[nn.Parameter, torch.Tensor | None], model: nn.Module, batch: Batch
) -> torch.Tensor:
    for each in model.parameters():
        if each not in kept:
            kept[each] = None
            each.register_post_accumulate_grad_hook(lambda done: kept.update({done: done.grad}))
        elif each.grad is None and (gradient := kept[each]) is not None:
            each.grad = gradient.zero_()
    return compute_loss(given, model, batch)
