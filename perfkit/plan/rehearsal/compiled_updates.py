"""Plans torchao's optimizers as compiled: torch's compiler fuses an update, and fake tensors cannot be compiled.

Fused kernels read and write parameter, gradient and state in place. What is between two kernels is scratch memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

import torch
from torch._dynamo import eval_frame
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from perfkit.plan.rehearsal.compiled_code import RUN_KERNEL
from perfkit.plan.rehearsal.fake_memory import FakeMemory

# True while a fused update goes through its ops, which take no time of their own.
in_fused_update: ContextVar[bool] = ContextVar("in_fused_update", default=False)

_OPTIMIZERS = "torchao.optim.adam"

# Bytes between kernels by class of state, of each number of the parameter: of states in 8 bits both moments in fp32,
# of those in 4 bits also their codes in 64 and 8 bits. Allocations of torch 2.13's kernels on a CPU. On a GPU, where
# scratch memory is an upper bound, kernels may keep less.
_BETWEEN_KERNELS = {"OptimState8bit": 8, "OptimState4bit": 26}


@contextmanager
def fuse_updates(memory: FakeMemory, eagerly_as_told: bool) -> Iterator[None]:
    """Have torchao's updates record fused kernels inside this context: their scratch memory, and one kernel's traffic.

    `eagerly_as_told`: where torch is told to compile nothing (`torch.compiler.set_stance`) they are recorded op by op.
    """
    compile_function = torch.compile

    def compile_update(model: Any = None, *args: Any, **options: Any) -> Any:
        if getattr(model, "__module__", "") != _OPTIMIZERS:
            return compile_function(model, *args, **options)
        return _fuse(model, memory, eagerly_as_told)

    with patch.object(torch, "compile", compile_update):
        yield


def _fuse(update: Callable[..., Any], memory: FakeMemory, eagerly_as_told: bool) -> Callable[..., Any]:
    def run(parameter: torch.Tensor, gradient: torch.Tensor, *args: Any) -> Any:
        if eagerly_as_told and eval_frame._stance.stance == "force_eager":
            return update(parameter, gradient, *args)
        kinds = {type(each).__name__ for each in args}
        scratch = max((_BETWEEN_KERNELS.get(kind, 0) for kind in kinds), default=0) * parameter.numel()
        moved = 2 * (count_stored_bytes(parameter, *args) + scratch) + count_stored_bytes(gradient)
        RUN_KERNEL("optimizer_update_torchao", [moved], [parameter])
        fused = in_fused_update.set(True)
        try:
            with memory.record_fused(f"{_OPTIMIZERS}.{update.__name__}", scratch):
                return update(parameter, gradient, *args)
        finally:
            in_fused_update.reset(fused)

    return run


def count_stored_bytes(*values: Any) -> int:
    """Bytes of tensors, and of those that a wrapper is made of; 0 for other values."""
    wrappers = [each for each in values if is_traceable_wrapper_subclass(each)]
    plain = [each for each in values if isinstance(each, torch.Tensor) and not is_traceable_wrapper_subclass(each)]
    inner = [getattr(each, name) for each in wrappers for name in each.__tensor_flatten__()[0]]
    return sum(each.nbytes for each in plain) + (count_stored_bytes(*inner) if inner else 0)
