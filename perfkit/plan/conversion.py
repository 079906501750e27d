"""Converting a module of fake tensors (`module.to(dtype)`), which torch's own way refuses, and copying one."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch


@contextmanager
def convert_fakes() -> Iterator[None]:
    """Modules convert their fake parameters in place while entered, as they do with real ones.

    torch swaps a fake parameter with the converted one, and cannot where anything refers to it weakly, as its fake
    mode and what records its life do.
    """
    with patch.object(nn.Module, "_apply", _apply_to_module):
        yield


@contextmanager
def copy_fakes() -> Iterator[None]:
    """A copy of a fake tensor (`copy.deepcopy`) is one of the same mode while entered.

    torch copies all that a tensor holds: the mode too, and a constant's value, which it cannot while the mode is on.
    """
    with patch.object(FakeTensor, "__deepcopy__", _copy_fake, create=True):
        yield


def _copy_fake(self: FakeTensor, memo: dict[int, Any]) -> Any:
    memo[id(self.fake_mode)] = self.fake_mode
    if self.constant is not None:
        with no_dispatch():
            copy.deepcopy(self.constant, memo)  # which is found in `memo` from here on
    return torch.Tensor.__deepcopy__(self, memo)  # type: ignore[no-untyped-call]


def _apply_to_module(self: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
    if recurse:
        for module in self.children():
            module._apply(fn)
    with torch.no_grad():
        for parameter in self._parameters.values():
            if parameter is not None:
                parameter.data = fn(parameter.data)
                if parameter.grad is not None:
                    parameter.grad.data = fn(parameter.grad.data)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
    return self
