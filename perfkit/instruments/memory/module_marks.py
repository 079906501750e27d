"""Marks the forward pass of every module, to attribute its allocations."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn
from torch.profiler import record_function

from perfkit.core.record.trace_marks import MARK_PREFIX
from perfkit.instruments.compile_exclusion import exclude_from_compile, is_compiling
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.techniques.base.call_wrappers import Call, wrap_calls

_MARK = MARK_PREFIX + "module::"


@contextmanager
def mark_modules(trained: TrainedModels) -> Iterator[None]:
    """Mark the forward pass of every named module with a range inside this context.

    A forward that is run again in backward (checkpointing) is marked again. Inside of compiled code no module is
    called: what it allocates is told by its outermost module. Replicas that `nn.DataParallel` makes are not marked.
    """
    replicated = {part for model in trained.models.values() for part in _list_replicated(model)}
    undo = [
        wrap_calls(module, partial(_mark_forward, name))
        for name, module in trained.named_modules()
        if name and module not in replicated
    ]
    try:
        yield
    finally:
        for take_off in reversed(undo):
            take_off()


def parse_module_name(mark: str) -> str | None:
    """The name of the module that a range marks; None for any other range."""
    return mark.removeprefix(_MARK) if mark.startswith(_MARK) else None


def _mark_forward(name: str, original: Call) -> Call:
    @exclude_from_compile
    def marked(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        with record_function(_MARK + name):
            return original(*args, **kwargs)

    return marked


def _list_replicated(model: nn.Module) -> Iterator[nn.Module]:
    """The modules in `model` whose attributes are copied as they are into replicas, which must not call the first."""
    for module in model.modules():
        if isinstance(module, nn.DataParallel) and len(module.device_ids) > 1:
            yield from module.module.modules()
