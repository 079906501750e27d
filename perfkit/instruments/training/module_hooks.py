"""Being called where forward passes of modules begin and end."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def watch_forward_passes(
    modules: Iterable[nn.Module], enter: Callable[[], object], leave: Callable[[], object]
) -> Iterator[None]:
    """Call `enter` before all other hooks of a module's forward pass and `leave` after them, even if it raises."""

    def before(*_of_the_call: Any) -> None:
        enter()

    def after(*_of_the_call: Any) -> None:
        leave()

    handles = []
    for module in modules:
        handles.append(module.register_forward_pre_hook(before, prepend=True))
        # Early stopping ends a recomputation with an exception.
        handles.append(module.register_forward_hook(after, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
