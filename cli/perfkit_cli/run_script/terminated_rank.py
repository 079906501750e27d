"""What a rank under `perfkit run` leaves that is terminated, as one that hangs is: its stacks, its flight record, and a
line."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from perfkit.store.layout import get_rank_folder
from perfkit_cli.run_script.left_report import leave_report, write_line

_FOLDER = "ended"  # within that of the results
_RANKS = "WORLD_SIZE"


def report_on_termination(rank: int, find_folder: Callable[[], Path]) -> None:
    """From now on SIGTERM has one of several ranks report where it is before it ends by it. torch is imported.

    `find_folder` returns the folder of the results. Does nothing where the program handles signals itself.
    """
    from perfkit.measure.rank.termination import call_before_termination

    several = os.environ.get(_RANKS, "").isdecimal() and int(os.environ[_RANKS]) > 1
    if not several or threading.current_thread() is not threading.main_thread():
        return
    wakeup = signal.set_wakeup_fd(-1)
    if wakeup != -1 or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        signal.set_wakeup_fd(wakeup)
        return
    call_before_termination(lambda: _leave_report(rank, get_rank_folder(find_folder() / _FOLDER, rank)))


def _leave_report(rank: int, folder: Path) -> None:
    place = leave_report(folder)
    write_line(f"rank {rank} was terminated{place}; stacks and collectives: {folder}")
