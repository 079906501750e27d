"""Samples of the stacks of this process, taken from outside of it while it goes on."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perfkit.errors import PerfkitError
from perfkit.instruments.stacks.collapsed import read_loop
from perfkit.instruments.stacks.permission import seen_by_children
from perfkit.instruments.stacks.spy import WITH_CHILDREN, Spied, Spy, end
from perfkit.store.stacks import COLLAPSED_FILE, SampledStacks

# The process does not stand still: a system call that is interrupted by that may fail, and a training must not notice.
_RUNNING = ("--nonblocking",)
_HELD_FILE = "stacks.held.txt"


@contextmanager
def sampled(folder: Path, hz: int, found: Callable[[SampledStacks], None]) -> Iterator[None]:
    """Sample the calling thread and loaders' workers meanwhile. `found` is given what was seen, or why nothing was; the
    stacks of all threads stay in `folder` as py-spy wrote them.

    py-spy does not write who held the interpreter's lock: a second one looks at those alone that hold it.
    """
    thread = threading.get_native_id()
    every, held = folder / COLLAPSED_FILE, folder / _HELD_FILE
    if sys.platform != "linux":
        found(SampledStacks(reason="the stacks of a loop are sampled on Linux only"))
        yield
        return
    spies: list[Spy] = []
    reason = ""
    with seen_by_children():
        try:
            spies.append(Spy(os.getpid(), every, hz=hz, options=(*_RUNNING, *WITH_CHILDREN), apart=True))
            spies.append(Spy(os.getpid(), held, hz=hz, options=(*_RUNNING, "--gil"), apart=True))
        except (PerfkitError, OSError) as error:
            reason = str(error)
        try:
            yield
        finally:
            seen: list[Spied] = []
            try:
                seen = end(spies)
            except PerfkitError as error:
                reason = reason or str(error)
            held.unlink(missing_ok=True)
            found(SampledStacks(reason=reason) if reason else _stacks(*seen, thread=thread, hz=hz))


def _stacks(every: Spied, held: Spied, *, thread: int, hz: int) -> SampledStacks:
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
        failed=every.failed + held.failed,
        reason="" if threads else "py-spy saw nothing of the loop",
    )
