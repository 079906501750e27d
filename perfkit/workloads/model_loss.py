"""Extracts the loss of a microbatch from the result of a model or loss function."""

from collections.abc import Mapping

import torch
from torch import nn

from perfkit.core.errors import UsageError
from perfkit.workloads.workload import Batch, Workload


def compute_loss(workload: Workload, model: nn.Module, batch: Batch) -> torch.Tensor:
    """The scalar loss of a microbatch.

    It is the workload's, or, without one, that of the model called with the batch as keyword arguments. Accepted are a
    tensor of one number, `loss` of a mapping or an object (transformers' outputs), and the only tensor of one number
    with a gradient in a tuple. Anything else is a `UsageError`.
    """
    result = call_loss(workload, model, batch)
    if isinstance(result, torch.Tensor):
        loss: object = result
    elif isinstance(result, Mapping):
        loss = result.get("loss")
    elif isinstance(result, tuple | list):
        scalars = [part for part in result if _is_loss(part)]
        loss = scalars[0] if len(scalars) == 1 else None
    else:
        loss = getattr(result, "loss", None)
    if not _is_loss(loss):
        who = f"the model of {workload.name}" if workload.loss is None else f"loss of {workload.name}"
        raise UsageError(
            f"{who} returned {_describe_value(result)}; expected the loss as a tensor of one number with a "
            "gradient, or a dict, tuple or object with one"
        )
    assert isinstance(loss, torch.Tensor)
    return loss


def call_loss(workload: Workload, model: nn.Module, batch: Batch) -> object:
    """Call the workload's loss, or its model if it has none, on a microbatch."""
    return model(**batch) if workload.loss is None else workload.loss(model, batch)


def _is_loss(part: object) -> bool:
    return isinstance(part, torch.Tensor) and part.numel() == 1 and part.requires_grad


def _describe_value(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}" + ("" if value.requires_grad else " without a gradient")
    if isinstance(value, Mapping):
        return f"a mapping of {', '.join(map(repr, value)) or 'nothing'}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {', '.join(_describe_value(part) for part in value) or 'nothing'}"
    return f"a {type(value).__name__}"
