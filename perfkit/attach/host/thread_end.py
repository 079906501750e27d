"""Calls a function when a thread ends, by that thread itself: torch's profiler can be ended by no other."""

import threading
from collections.abc import Callable


class ThreadEnd:
    """Calls a function on the thread that asked for it, right before that thread is gone (and joined)."""

    def __init__(self) -> None:
        self._own = threading.local()

    def call(self, function: Callable[[], None]) -> None:
        """Call `function` at the end of the calling thread, in place of any earlier one."""
        last = getattr(self._own, "last", None)
        if last is None:
            self._own.last = _EndCallback(function)
        else:
            last.function = function


class _EndCallback:
    """Runs at thread end: Python drops thread-local values as a thread's last action."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self._thread = threading.get_ident()

    def __del__(self) -> None:
        # Of threads that outlive the interpreter it is dropped by another one.
        if threading.get_ident() == self._thread:
            self.function()
