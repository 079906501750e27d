"""Replaces the real tensors of a prebuilt model by fake ones."""

from typing import Any

import torch
from torch import nn

from perfkit.cost.torch_fakes import FakeTensor, FakeTensorMode


def strip_tensor_data(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """Replace all tensors of the model by fake ones of `mode`, in place; shared tensors stay shared.

    A workload may return a prebuilt model, or one that another variant was planned with.
    """
    replacements: dict[int, torch.Tensor] = {}
    for module in model.modules():
        tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for named in tables:
            for name, tensor in named.items():
                if tensor is None or (isinstance(tensor, FakeTensor) and tensor.fake_mode is mode):
                    continue
                if id(tensor) not in replacements:
                    replacements[id(tensor)] = _make_empty_like(tensor)
                named[name] = replacements[id(tensor)]
    return model


def _make_empty_like(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
