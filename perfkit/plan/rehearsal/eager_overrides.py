"""Overrides code that mistakes fake tensors for tracing, and would behave as in compiled code."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._C import DispatchKey

_LINEAR = torch.ops.aten.linear.default


@contextmanager
def patch_linear() -> Iterator[None]:
    """Make linear layers add their bias in place inside this context.

    Of an input that is neither contiguous nor a matrix torch adds it after the product, and to a new tensor where
    there are subclasses of tensors (ATen/native/Linear.cpp).
    """
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("linear", _run_linear, "AutogradCPU")
        yield


def _run_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    if bias is None or x.dim() == 2 or x.is_contiguous():
        return _LINEAR._op_dk(DispatchKey.CompositeImplicitAutograd, x, weight, bias)
    return torch.matmul(x, weight.t()).add_(bias)


@contextmanager
def patch_transformers() -> Iterator[None]:
    """Make Transformers, if imported, drop masks that hide nothing inside this context."""
    module = sys.modules.get("transformers.utils.import_utils")
    with ExitStack() as stack:
        if module is not None:
            stack.enter_context(patch.object(module, "is_fake_tensor", lambda _: False))
        yield
