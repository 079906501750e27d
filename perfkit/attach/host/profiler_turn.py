"""torch has one profiler, and the program's own goes first: one that begins under another may end the process."""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch.autograd.profiler as autograd_profiler
from torch.profiler import ProfilerActivity

from perfkit.attach.host.guard import Guard
from perfkit.instruments.autograd_state import is_profiling
from perfkit.instruments.compile_exclusion import call_uncompiled, exclude_from_compile
from perfkit.instruments.profiler_sessions import count_session

# The first and last calls of every profiler of torch's Python interface.
_BEGINNINGS = ("_prepare_profiler", "_enable_profiler")
_END = "_disable_profiler"


class ProfilerTaken(Exception):  # noqa: N818 - no error: the program's profiler is about to begin
    """Thrown into a recording whose profiler has to end now."""


class ProfilerTurn:
    """Whose turn it is with torch's profiler.

    Attributes:
        ours: whether one of perfkit's recordings has it, also between two profilers of it.
        theirs: whether the program has it.
        seen: whether the program had it since this was set to False.
    """

    def __init__(self) -> None:
        self.ours = False
        self.theirs = self.seen = is_profiling()
        self._calling = False
        self._thread = 0
        self._undo: list[Callable[[], None]] = []

    def install(self, guard: Guard, give_way: Callable[[], None]) -> None:
        """Call `give_way`, on the loop's thread, before a profiler of the program begins during perfkit's."""

        def beginning() -> None:
            if self.ours and self._thread == threading.get_ident():
                give_way()

        def begins(name: str, args: Sequence[Any]) -> None:
            self.theirs = self.seen = True
            if name == _BEGINNINGS[-1] and ProfilerActivity.CUDA in args[1]:
                count_session()
            call_uncompiled(guard, beginning)

        def ends(*_: object) -> None:
            self.theirs = False

        self._undo = [self._wrap_profiler_call(name, begins) for name in _BEGINNINGS] + [
            self._wrap_profiler_call(_END, ends)
        ]

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()

    @contextmanager
    def hold_profiler(self) -> Iterator[None]:
        """One of our recordings has the profiler while this is entered."""
        self.ours, self._thread = True, threading.get_ident()
        try:
            yield
        finally:
            self.ours = False

    @contextmanager
    def mark_own_calls(self) -> Iterator[None]:
        """Mark profiler calls within this context as perfkit's own."""
        before, self._calling = self._calling, True
        try:
            yield
        finally:
            self._calling = before

    def _wrap_profiler_call(self, name: str, tell: Callable[[str, Sequence[Any]], None]) -> Callable[[], None]:
        original = getattr(autograd_profiler, name)

        @functools.wraps(original)
        @exclude_from_compile
        def told(*args: Any, **kwargs: Any) -> Any:
            if not self._calling:
                tell(name, args)
            return original(*args, **kwargs)

        def put_back() -> None:
            if getattr(autograd_profiler, name) is told:
                setattr(autograd_profiler, name, original)

        setattr(autograd_profiler, name, told)
        return put_back
