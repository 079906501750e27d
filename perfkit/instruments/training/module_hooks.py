"""Being called where forward passes of modules begin and end."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def watch_forward_passes(
    modules: Iterable[nn.Module], enter: Callable[[], object], leave: Callable[[], object]
) -> Iterator[None]:
    """Call `enter` before all other hooks of a module's forward pass and `leave` after them, even if it raises.

    TorchScript calls the modules within a scripted one itself: only calls from Python are seen.
    """

    def before(*_of_the_call: Any) -> None:
        enter()

    def after(*_of_the_call: Any) -> None:
        leave()

    handles = []
    for module in modules:
        # Of the class: scripted modules refuse these methods, and have the hooks.
        handles.append(nn.Module.register_forward_pre_hook(module, before, prepend=True))
        # Early stopping ends a recomputation with an exception.
        handles.append(nn.Module.register_forward_hook(module, after, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
