"""Overrides what torch and libraries do with fake tensors, where it differs from what they do with real ones."""

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch._meta_registrations import mkldnn_rnn_layer

from perfkit.cost.torch_dispatch import DispatchKey, no_dispatch, replace_kernels
from perfkit.cost.torch_fakes import FakeTensor, FakeTensorMode, fake_kernels
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe

_LINEAR = torch.ops.aten.linear.default


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
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            converted = fn(parameter.data)
            if not torch._has_compatible_shallow_copy_type(parameter.data, converted):  # on `meta`, as in torch
                self._parameters[name] = nn.Parameter(converted, parameter.requires_grad)
                continue
            parameter.data = converted
            if parameter.grad is not None:
                parameter.grad.data = fn(parameter.grad.data)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
    return self


@contextmanager
def subclass_fakes() -> Iterator[None]:
    """Let libraries make parameters of their own classes from fake tensors inside this context.

    torch does not make a subclass of a fake tensor, and `nn.Parameter` marks it as a parameter instead. Methods of the
    subclass are missing.
    """
    make = torch.Tensor._make_subclass

    def make_parameter(kind: type[torch.Tensor], data: torch.Tensor, require_grad: bool = False, **options: Any) -> Any:
        if not (isinstance(data, FakeTensor) and issubclass(kind, nn.Parameter)):
            return make(kind, data, require_grad, **options)
        return nn.Parameter(data, requires_grad=require_grad)

    with patch.object(torch.Tensor, "_make_subclass", make_parameter):
        yield


@contextmanager
def forget_tables() -> Iterator[None]:
    """Have bitsandbytes and torchao compute their tables of codes anew inside this context, and forget them: they keep
    them for the process, and these are made of values that fake tensors do not have."""
    kept = dict(_get_tables())
    _clear_tables()
    try:
        yield
    finally:
        _clear_tables()
        _get_tables().update(kept)


def _get_tables() -> dict[str, torch.Tensor]:
    tables: dict[str, torch.Tensor] = getattr(sys.modules.get("bitsandbytes.functional"), "name2qmap", {})
    return tables


def _clear_tables() -> None:
    _get_tables().clear()
    for states in ("torchao.optim.subclass_8bit", "torchao.optim.subclass_4bit"):
        if states in sys.modules:
            sys.modules[states].get_qmap_signed.cache_clear()
            sys.modules[states].get_qmap_unsigned.cache_clear()


@contextmanager
def patch_linear() -> Iterator[None]:
    """Make linear layers add their bias in place inside this context.

    Of an input that is neither contiguous nor a matrix torch adds it after the product, and to a new tensor where
    there are subclasses of tensors (ATen/native/Linear.cpp).
    """
    with replace_kernels("aten") as library:
        library.impl("linear", _run_linear, "AutogradCPU")
        yield


def _run_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    if bias is None or x.dim() == 2 or x.is_contiguous():
        return _LINEAR._op_dk(DispatchKey.CompositeImplicitAutograd, x, weight, bias)
    return torch.matmul(x, weight.t()).add_(bias)


@contextmanager
def patch_transformers() -> Iterator[None]:
    """Make Transformers, if imported, drop masks that hide nothing inside this context: it takes a fake tensor for a
    traced one, whose masks it keeps."""
    module = sys.modules.get("transformers.utils.import_utils")
    with ExitStack() as stack:
        if module is not None:
            stack.enter_context(patch.object(module, "is_fake_tensor", lambda _: False))
        yield


def _infer_grouped_mm(
    mode: FakeTensorMode, _func: Any, a: FakeTensor, b: FakeTensor, offsets: Any = None, **_: Any
) -> Any:
    """Products of the groups of experts; the fake kernel takes bf16 alone, where a CPU takes fp32 too.

    (rows, k) x (groups, k, n) is (rows, n), and so the other way round; two batches make a batch; of two matrices that
    are cut along k each group's product is one of its own.
    """
    rows, columns = a.shape[-2], b.shape[-1]
    if a.dim() == b.dim():
        shape: tuple[int, ...] = (a.shape[0] if a.dim() == 3 else offsets.shape[0], rows, columns)
    else:
        shape = (rows, columns)
    with mode:
        return torch.empty(shape, dtype=a.dtype, device=a.device)


def _infer_recurrent_layer(alone: OpScratchProbe, mode: FakeTensorMode, func: Any, *args: Any, **kwargs: Any) -> Any:
    """oneDNN's layer of an LSTM: output, hidden and cell state, and what it keeps for backward.

    The last one's size is the library's affair: the fake kernel leaves it empty, as this does for a layer that is too
    large to be tried.
    """
    with mode:
        *states, _ = mkldnn_rnn_layer(*args, **kwargs)
    tried = alone.try_op(func, args, kwargs, states)
    with mode:
        return *states, torch.empty(0 if tried is None else tried.results[-1], dtype=torch.uint8)


@contextmanager
def register_fake_ops(alone: OpScratchProbe) -> Iterator[None]:
    """Register fake kernels of ops that torch's own do not support on a CPU inside this context."""
    more = {
        torch.ops.aten._grouped_mm.default: _infer_grouped_mm,
        torch.ops.aten.mkldnn_rnn_layer.default: partial(_infer_recurrent_layer, alone),
    }
    with patch.dict(fake_kernels, more):
        yield
