"""A model whose tensors have contents, because it was built before its plan: without them from here on."""

from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


def strip_tensor_data(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """The model with tensors of `mode` in the place of all others, in place; what it shares stays shared.

    A workload may return a model that it has built already, or the one that another variant was planned with.
    """
    made: dict[int, torch.Tensor] = {}
    for module in model.modules():
        held: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for named in held:
            for name, tensor in named.items():
                if tensor is None or (isinstance(tensor, FakeTensor) and tensor.fake_mode is mode):
                    continue
                if id(tensor) not in made:
                    made[id(tensor)] = _make_empty_like(tensor)
                named[name] = made[id(tensor)]
    return model


def _make_empty_like(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
