"""BERT as the measured program trains it: torch before 2.0 fills gradients with zeros and keeps them.

`bert` is a workload for `perfkit plan -w benchmarks/published/encoders.py:bert:KEY=VALUE`.
"""

from dataclasses import replace
from functools import partial

import torch
from torch import nn

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


def bert(batch_size: int = 4, seq_len: int = 512) -> Workload:
    """BERT large with a head for classification, and gradients that stay from the first backward on."""
    given = HuggingFace.parse("BertConfig", {**_LARGE, "batch_size": batch_size, "seq_len": seq_len}).build()
    return replace(given, loss=partial(_compute_loss, given, {}))


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
