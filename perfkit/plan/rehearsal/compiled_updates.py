"""Plans torchao's optimizers as compiled: torch's compiler fuses an update, and fake tensors cannot be compiled.

Fused kernels read and write parameter, gradient and state in place. What is between two kernels is scratch memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._dynamo import eval_frame

from perfkit.plan.rehearsal.fake_memory import FakeMemory

_OPTIMIZERS = "torchao.optim.adam"

# Bytes between kernels by class of state, of each number of the parameter: of states in 8 bits both moments in fp32,
# of those in 4 bits also their codes in 64 and 8 bits. Allocations of torch 2.13's kernels on a CPU. On a GPU, where
# scratch memory is an upper bound, kernels may keep less.
_BETWEEN_KERNELS = {"OptimState8bit": 8, "OptimState4bit": 26}


@contextmanager
def fuse_updates(memory: FakeMemory, eagerly_as_told: bool) -> Iterator[None]:
    """Have torchao's updates record fused kernels inside this context.

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
    def run(parameter: torch.Tensor, *args: Any) -> Any:
        if eagerly_as_told and eval_frame._stance.stance == "force_eager":
            return update(parameter, *args)
        kinds = {type(each).__name__ for each in args}
        scratch = max((_BETWEEN_KERNELS.get(kind, 0) for kind in kinds), default=0) * parameter.numel()
        with memory.record_fused(f"{_OPTIMIZERS}.{update.__name__}", scratch):
            return update(parameter, *args)

    return run
