"""Excludes perfkit's hooks from torch.compile.

While a compiled function runs, torch hands every Python function called from uncompiled code to its compiler (PEP 523),
including perfkit's where hooks lead to it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.compiler
from torch import nn
from torch._C._dynamo.eval_frame import (
    _FrameAction,
    _FrameExecStrategy,
    set_code_exec_strategy,
    set_eval_frame,
)

from perfkit.techniques.base.call_wrappers import is_compiled_in_place

F = TypeVar("F", bound=Callable[..., Any])

# Whether this is being traced, not run.
is_compiling: Callable[[], bool] = torch.compiler.is_compiling

_AS_IT_IS = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.DEFAULT)  # the function, and those that it calls


def exclude_from_compile(function: F) -> F:
    """Run `function` uncompiled; functions that it calls may be compiled. Within a graph it is traced as usual."""
    set_code_exec_strategy(function.__code__, _AS_IT_IS)
    return function


@exclude_from_compile
def call_uncompiled(function: Callable[..., Any], *args: Any) -> None:
    """Call `function`, and have nothing that it calls compiled."""
    before = set_eval_frame(None)
    try:
        function(*args)
    finally:
        set_eval_frame(before)


def has_compiled_modules(model: nn.Module) -> bool:
    """True if a module of the model was compiled, in place or as `torch.compile(module)`.

    Not while marks stand around its calls, which torch keeps where it keeps compiled calls.
    """
    return any(is_compiler_wrapper(module) or is_compiled_in_place(module) for module in model.modules())


def is_compiler_wrapper(module: nn.Module) -> bool:
    """True for what `torch.compile(module)` returns."""
    from torch._dynamo import OptimizedModule  # not sooner: it takes time

    return isinstance(module, OptimizedModule)
