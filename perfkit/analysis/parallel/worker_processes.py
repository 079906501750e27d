"""Items spread over processes of this machine.

The processes are started afresh (spawned), so they inherit no threads, locks or memory. Each has a pipe of its own: one
that dies, of lack of memory for example, takes only its item with it and is replaced.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Generic, TypeVar, cast

import psutil

from perfkit.core.errors import PerfkitError
from perfkit.devices.machine.machine import count_available_cores

Item = TypeVar("Item")
Result = TypeVar("Result")

# The memory of one process for a large trace; fewer run at once with less.
_PROCESS_BYTES = 2**30
# Python keeps some of the memory that it has used: a process is replaced before that adds up. Not after small items:
# starting one takes as long as several of them.
_ITEMS_PER_PROCESS = 32
_KEPT_BYTES = 2**28
_JOIN_S = 5.0


def run_in_processes(
    function: Callable[[Item], Result], items: Iterable[Item], jobs: int | None = None
) -> Iterator[tuple[Item, Result | PerfkitError]]:
    """See `engines.run_parallel`."""
    count = count_default_jobs() if jobs is None else max(1, jobs)
    if isinstance(items, Sized):
        count = min(len(items), count)
    if count <= 1:
        yield from _run_in_this_process(function, items)
        return
    waiting = iter(items)
    busy: dict[Connection, _Worker[Item, Result]] = {}
    idle: list[_Worker[Item, Result]] = []
    try:
        _give_waiting(function, waiting, busy, idle, count)
        while busy:
            for ready in wait(list(busy)):
                worker = busy.pop(cast(Connection, ready))
                item, result = worker.take()
                if worker.usable:
                    idle.append(worker)
                else:
                    worker.stop()
                if isinstance(items, Sized):  # what is left does not depend on the result
                    _give_waiting(function, waiting, busy, idle, count)
                yield item, result
            _give_waiting(function, waiting, busy, idle, count)
    finally:
        for worker in (*busy.values(), *idle):
            worker.kill()


def count_default_jobs() -> int:
    """The number of cores, limited by the free memory."""
    return max(1, min(count_available_cores(), psutil.virtual_memory().available // _PROCESS_BYTES))


def try_item(function: Callable[[Item], Result], item: Item) -> Result | PerfkitError:
    """The function's result, or the error it reports."""
    try:
        return function(item)
    except PerfkitError as error:
        return error


def _run_in_this_process(
    function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[tuple[Item, Result | PerfkitError]]:
    for item in items:
        yield item, try_item(function, item)


class _EndMarker:
    """The end of items: any value could be an item."""


_END = _EndMarker()


class _Worker(Generic[Item, Result]):
    """A process at work on one item at a time."""

    def __init__(self, function: Callable[[Item], Result]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(target=_serve_items, args=(function, theirs), daemon=True)
        self._process.start()
        theirs.close()  # so that its end is known by the pipe's
        self._done = 0
        self._alive = True
        self._item: Item

    @property
    def usable(self) -> bool:
        return self._alive and (self._done < _ITEMS_PER_PROCESS or self._measure_memory() < _KEPT_BYTES)

    def _measure_memory(self) -> int:
        """The process's memory in bytes; more than any where it has ended."""
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return sys.maxsize

    def give(self, item: Item) -> None:
        self._item = item
        # One that has died meanwhile is noticed when its result is taken.
        if self._alive:
            try:
                self.pipe.send(item)
            except (BrokenPipeError, ConnectionResetError):
                self._alive = False

    def take(self) -> tuple[Item, Result | PerfkitError]:
        self._done += 1
        try:
            return self._item, self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._alive = False
            self._process.join(_JOIN_S)
            return self._item, PerfkitError(f"{self._item}: {_describe_exit(self._process.exitcode)}")

    def stop(self) -> None:
        self.pipe.close()
        self._process.join(_JOIN_S)
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _give_waiting(
    function: Callable[[Item], Result],
    waiting: Iterator[Item],
    busy: "dict[Connection, _Worker[Item, Result]]",
    idle: "list[_Worker[Item, Result]]",
    count: int,
) -> None:
    """Give items to idle processes, and to new ones up to the count; those for which there is no item now stay idle."""
    while len(busy) < count:
        item = next(waiting, _END)
        if isinstance(item, _EndMarker):
            return
        worker = idle.pop() if idle else _Worker(function)
        worker.give(item)
        busy[worker.pipe] = worker


def _describe_exit(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "the worker process was killed, most likely out of memory: run fewer at once (--jobs)"
    return f"the worker process ended with exit code {code}; its output is above"


def _serve_items(function: Callable[[Item], Result], pipe: Connection) -> None:
    """The process's side: work on items until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent ends its children itself
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        pipe.send(try_item(function, item))


def _end_with_parent() -> None:
    """A parent that is killed cannot end its children, and one at work would not notice."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
