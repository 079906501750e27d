"""A rank that is terminated (SIGTERM) first reports where it is: its Python stacks, and the collectives it waits in.

Its main thread cannot answer while it waits for another rank, so a thread does, which sleeps until then and does not
affect steps. The signal's own handler prints the stacks, without the GIL.
"""

import contextlib
import ctypes
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from perfkit.core.errors import PerfkitError
from perfkit.measure.rank.flight_dump import save_flight_record

# All ranks are signaled at once. The first to end would break the others' waits before they have reported them.
OTHERS_S = 0.5
_STDERR = 2


def report_on_termination(folder: Path, *, ranks: int) -> None:
    """From now on SIGTERM has this process print its stacks, leave its flight record in `folder`, and end by it.

    Processes that are forked from this one are ended by SIGTERM at once, as ever.
    """
    if ranks > 1:
        call_before_termination(lambda: save_flight_record(folder))
    else:
        _reset_forks()
    faulthandler.register(signal.SIGTERM, file=_STDERR, chain=True)


class _ReportingHandler:
    """Handles SIGTERM in the main thread, or in a thread of its own while that one is in C; the first of both reports
    and ends the process."""

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._begun = threading.Lock()

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self._report_and_end()

    def _report_and_end(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            # A disk that is full; no dump can be had.
            with contextlib.suppress(PerfkitError, RuntimeError, MemoryError, OSError):
                self._report()
            time.sleep(OTHERS_S)
        finally:
            faulthandler.unregister(signal.SIGTERM)
            ctypes.CDLL(None).signal(signal.SIGTERM, 0)  # SIG_DFL; Python lets only its main thread do so
            os.kill(os.getpid(), signal.SIGTERM)

    def wait_for_signal(self, heard: int) -> None:
        while os.read(heard, 1) != bytes((signal.SIGTERM,)):
            pass  # another signal that Python handles
        is_replaced = signal.getsignal(signal.SIGTERM) is not self  # by the program
        if not is_replaced:
            self._report_and_end()


def call_before_termination(report: Callable[[], None]) -> None:
    """From now on SIGTERM has this process call `report` before it ends by it, in another thread while the main one
    waits in C; forks of it end at once. Call it in the main thread."""
    heard, say = os.pipe()
    os.set_blocking(say, False)
    handler = _ReportingHandler(report)
    signal.signal(signal.SIGTERM, handler)
    signal.set_wakeup_fd(say, warn_on_full_buffer=False)
    threading.Thread(target=handler.wait_for_signal, args=(heard,), name="perfkit SIGTERM", daemon=True).start()
    _reset_forks()


def _reset_forks() -> None:
    """Processes that are forked from this one are ended by SIGTERM at once."""
    os.register_at_fork(before=_block_signal, after_in_parent=_unblock_signal, after_in_child=_reset_handlers)


# A signal that reached a fork before it has reset would be reported through the pipe that it shares with this process.
def _block_signal() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _unblock_signal() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _reset_handlers() -> None:
    faulthandler.unregister(signal.SIGTERM)
    if isinstance(signal.getsignal(signal.SIGTERM), _ReportingHandler):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
    _unblock_signal()
