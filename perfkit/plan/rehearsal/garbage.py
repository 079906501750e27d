"""Collects garbage at fixed points of a rehearsal, so that no planned peak depends on when Python collects it."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def collect_on_request() -> Iterator[Callable[[], None]]:
    """Collect nothing inside this context but on a call of the yielded function.

    It looks for cycles of references among the objects made since the last collection alone: a search of all that torch
    has imported would take longer than a small model's step.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield _collect_young
    finally:
        if was_enabled:
            gc.enable()


def _collect_young() -> None:
    gc.collect(0)
