"""Lets a process be looked into by a child of its own.

Under Yama's scope 1, the default of Ubuntu and others, processes are looked into by those that started them, and by
those that they name: prctl(2), PR_SET_PTRACER.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from perfkit.instruments.stacks.py_spy import SCOPE

_PR_SET_PTRACER = 0x59616D61  # linux/prctl.h
_NOBODY = 0


class Libc(Protocol):
    def prctl(self, option: int, pid: ctypes.c_ulong) -> int: ...


@contextmanager
def enable_child_tracing(scope: Path = SCOPE, libc: Libc | None = None) -> Iterator[None]:
    """Meanwhile this process may be looked into by itself and by what it starts, where that has to be said."""
    if not scope.is_file() or scope.read_text().strip() != "1":
        yield
        return
    library: Libc = libc or ctypes.CDLL(None)
    library.prctl(_PR_SET_PTRACER, ctypes.c_ulong(os.getpid()))
    try:
        yield
    finally:
        library.prctl(_PR_SET_PTRACER, ctypes.c_ulong(_NOBODY))
