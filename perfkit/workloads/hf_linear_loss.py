"""Computes the loss of a Transformers causal language model with its output layer left to another function."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.workloads.workload import Batch, LinearLoss


def compute_linear_loss(model: nn.Module, batch: Batch, loss: LinearLoss) -> torch.Tensor:
    """The loss of the next tokens. `loss` gets the features and the weight of the output layer.

    The model is called as a whole, so that what wraps it acts, and adds its other losses itself. Raises
    `UnavailableError` where its output layer has a bias, or its logits are changed before the loss.
    """
    # Wrapped by parallel training, the model of Transformers is within.
    inner: Any = next(module for module in model.modules() if hasattr(module, "get_output_embeddings"))
    head = inner.get_output_embeddings()
    if not isinstance(head, nn.Linear) or head.bias is not None:
        raise UnavailableError(f"the output layer of {type(inner).__name__} is no linear layer without a bias")
    with _fuse_head(inner, head, loss) as losses:
        result = model(**batch)
    if not losses:
        raise UnavailableError(f"{type(inner).__name__} computes its loss without Transformers' loss_function")
    value: torch.Tensor = result.loss
    return value


@contextmanager
def _fuse_head(model: Any, head: nn.Linear, loss: LinearLoss) -> Iterator[list[torch.Tensor]]:
    """The output layer hands on its features, and the model's loss is `loss` of them; yields the computed losses."""
    losses: list[torch.Tensor] = []
    passed: list[torch.Tensor] = []

    def pass_features(features: torch.Tensor) -> torch.Tensor:
        passed.append(features)
        return features

    def compute_loss(logits: torch.Tensor, labels: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        if not any(logits is features for features in passed):
            raise UnavailableError(f"{type(model).__name__} changes its logits before the loss")
        features, targets = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        losses.append(loss(features, head.weight, targets))
        return losses[-1]

    own_loss = model.loss_function
    head.forward = pass_features  # type: ignore[method-assign, assignment]
    model.loss_function = compute_loss
    try:
        yield losses
    finally:
        del head.forward
        model.loss_function = own_loss
