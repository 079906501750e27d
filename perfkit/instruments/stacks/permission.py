"""Lets a child process inspect this one.

Under Yama's scope 1, the default of Ubuntu and others, a process may be inspected by its ancestors, and by processes
that it names: prctl(2), PR_SET_PTRACER.
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
    """While entered, this process may be inspected by itself and by its children, where permission is needed."""
    if not scope.is_file() or scope.read_text().strip() != "1":
        yield
        return
    library: Libc = libc or ctypes.CDLL(None)
    library.prctl(_PR_SET_PTRACER, ctypes.c_ulong(os.getpid()))
    try:
        yield
    finally:
        library.prctl(_PR_SET_PTRACER, ctypes.c_ulong(_NOBODY))
