"""Makes modules of fake tensors convertible (`module.to(dtype)`) and copyable, which torch refuses."""

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
    """Let modules convert fake parameters in place inside this context, like real ones.

    torch swaps a fake parameter with the converted one, and fails if there are weak references to it, such as those of
    its fake mode and of the memory recorder.
    """
    with patch.object(nn.Module, "_apply", _apply_to_module):
        yield


@contextmanager
def copy_fakes() -> Iterator[None]:
    """Let copies of fake tensors (`copy.deepcopy`) share the mode inside this context.

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
