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
from pathlib import Path

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
        heard, say = os.pipe()
        os.set_blocking(say, False)
        signal.signal(signal.SIGTERM, lambda *_: None)  # the thread ends the process
        signal.set_wakeup_fd(say, warn_on_full_buffer=False)
        threading.Thread(target=_wait_for_signal, args=(heard, folder), name="perfkit SIGTERM", daemon=True).start()
    faulthandler.register(signal.SIGTERM, file=_STDERR, chain=True)
    os.register_at_fork(before=_block_signal, after_in_parent=_unblock_signal, after_in_child=_reset_handlers)


def _wait_for_signal(heard: int, folder: Path) -> None:
    while os.read(heard, 1) != bytes((signal.SIGTERM,)):
        pass  # another signal that Python handles
    try:
        with contextlib.suppress(PerfkitError, RuntimeError, MemoryError):  # a disk that is full; no dump can be had
            save_flight_record(folder)
        time.sleep(OTHERS_S)
    finally:
        faulthandler.unregister(signal.SIGTERM)
        ctypes.CDLL(None).signal(signal.SIGTERM, 0)  # SIG_DFL; Python lets only its main thread do so
        os.kill(os.getpid(), signal.SIGTERM)


# A signal that reached a fork before it has reset would be reported through the pipe that it shares with this process.
def _block_signal() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _unblock_signal() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _reset_handlers() -> None:
    faulthandler.unregister(signal.SIGTERM)
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
    _unblock_signal()
