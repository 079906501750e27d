"""Keeps torch's own log messages on a recording out of the program's output."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

_LEVEL = "FLAGS_caffe2_log_level"  # of libc10, exported; lower levels are not written
_ERROR = 2


@contextmanager
def log_errors_only() -> Iterator[None]:
    """While entered libc10 writes errors alone to standard error.

    Its CPU allocator warns of the first block it frees that a profiler has not seen being allocated, which every
    recording of a loop under way must meet. Where the library has no such switch, the line is written.
    """
    level = _find_level()
    before = None if level is None else level.value
    if level is not None:
        level.value = max(level.value, _ERROR)
    try:
        yield
    finally:
        if level is not None and before is not None:
            level.value = before


def _find_level() -> ctypes.c_int | None:
    libraries = sorted((Path(torch.__file__).parent / "lib").glob("libc10.*"))
    for library in libraries:
        try:
            return ctypes.c_int.in_dll(ctypes.CDLL(str(library)), _LEVEL)
        except (OSError, ValueError):
            continue
    return None
