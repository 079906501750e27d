"""What a rank under `perfkit run` leaves that is terminated, as one that hangs is: its stacks, its flight record, and a
line."""

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from perfkit.core.errors import RunFormatError
from perfkit.flight.mismatch_text import describe_position
from perfkit.flight.record_file import read_flight_record
from perfkit.store.layout import FLIGHT_FILE, get_rank_folder

_FOLDER = "ended"  # within that of the results
_STACKS = "stacks.txt"
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
    from perfkit.measure.rank.flight_dump import save_flight_record

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _STACKS).open("w") as file:
        faulthandler.dump_traceback(file)
    save_flight_record(folder)
    position = _read_position(folder / FLIGHT_FILE)
    if sys.stderr is not None:
        sys.stderr.write(f"perfkit: rank {rank} was terminated{position}; stacks and collectives: {folder}\n")
        sys.stderr.flush()


def _read_position(path: Path) -> str:
    """`, waiting in all_reduce 12 of default_pg at train.py:7 (loss)`; "" without a record."""
    if not path.is_file():
        return ""
    try:
        return describe_position(read_flight_record(path))
    except RunFormatError:
        return ""
