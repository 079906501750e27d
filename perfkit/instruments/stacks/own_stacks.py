"""Samples of the stacks of this process, taken from outside of it while it goes on."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from perfkit.core.errors import PerfkitError
from perfkit.instruments.stacks.collapsed_stacks import read_loop
from perfkit.instruments.stacks.py_spy import SCOPE, WITH_CHILDREN, SpyResult, StackSpy, end_spies
from perfkit.store.stacks import COLLAPSED_FILE, SampledStacks

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


# The process is not paused: an interrupted system call may fail, and training must not be affected.
_RUNNING = ("--nonblocking",)
_HELD_FILE = "stacks.held.txt"


@contextmanager
def sample_own_stacks(folder: Path, hz: int, report: Callable[[SampledStacks], None]) -> Iterator[None]:
    """Sample the calling thread and the loaders' workers while entered; `report` gets the samples or the reason.

    The stacks of all threads stay in `folder`, as py-spy wrote them.

    py-spy does not record which thread holds the GIL: a second one samples only those that hold it.
    """
    thread = threading.get_native_id()
    every, held = folder / COLLAPSED_FILE, folder / _HELD_FILE
    if sys.platform != "linux":
        report(SampledStacks(reason="loop stacks are sampled on Linux only"))
        yield
        return
    spies: list[StackSpy] = []
    reason = ""
    with enable_child_tracing():
        try:
            spies.append(StackSpy(os.getpid(), every, hz=hz, options=(*_RUNNING, *WITH_CHILDREN), apart=True))
            spies.append(StackSpy(os.getpid(), held, hz=hz, options=(*_RUNNING, "--gil"), apart=True))
        except (PerfkitError, OSError) as error:
            reason = str(error)
        try:
            yield
        finally:
            seen: list[SpyResult] = []
            try:
                seen = end_spies(spies)
            except PerfkitError as error:
                reason = reason or str(error)
            held.unlink(missing_ok=True)
            report(SampledStacks(reason=reason) if reason else _build_stacks(*seen, thread=thread, hz=hz))


def _build_stacks(every: SpyResult, held: SpyResult, *, thread: int, hz: int) -> SampledStacks:
    threads = read_loop(
        every.text,
        held.text,
        pid=os.getpid(),
        thread=thread,
        hz=hz,
        seconds=every.seconds,
        directory=str(Path.cwd()),
    )
    return SampledStacks(
        threads=threads,
        seconds=every.seconds,
        cost_s=every.cost_s + held.cost_s,
        failed_samples=every.failed + held.failed,
        reason="" if threads else "py-spy took no samples of the loop",
    )
