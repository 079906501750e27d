"""Marking the forward of every module, so that what is allocated in it can be told."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.profiler import record_function

from perfkit.record import MARK_PREFIX

_MARK = MARK_PREFIX + "module::"

# Names that wrappers put between a module and what they wrap (torch's checkpoint wrapper, torch.compile, DDP).
_WRAPPERS = frozenset({"_checkpoint_wrapped_module", "_orig_mod", "module"})


@contextmanager
def marked_modules(model: nn.Module) -> Iterator[None]:
    """Ranges around the forward of every named module within `model` while entered.

    A forward that is run again in backward (checkpointing) is marked again. Compiled code does not call hooks that are
    registered after it was compiled: what it allocates is told by its outermost module.
    """
    handles = []
    for name, module in model.named_modules():
        if unwrapped(name):
            opened: list[Any] = []
            handles.append(module.register_forward_pre_hook(_before(unwrapped(name), opened)))
            handles.append(module.register_forward_hook(_after(opened), always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def unwrapped(name: str) -> str:
    """The name of a module or parameter as it was before techniques wrapped modules around it."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def module_name(mark: str) -> str | None:
    """The name of the module that a range marks; None for any other range."""
    return mark.removeprefix(_MARK) if mark.startswith(_MARK) else None


def _before(name: str, opened: list[Any]) -> Callable[..., None]:
    def hook(_module: nn.Module, _inputs: Any) -> None:
        mark = record_function(_MARK + name)
        mark.__enter__()
        opened.append(mark)

    return hook


def _after(opened: list[Any]) -> Callable[..., None]:
    def hook(_module: nn.Module, _inputs: Any, _output: Any) -> None:
        if opened:  # a forward that began before the hooks were there has no range to end
            opened.pop().__exit__(None, None, None)

    return hook
