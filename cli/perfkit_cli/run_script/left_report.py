"""What a rank under `perfkit run` leaves: the stacks of its threads, its flight record, and a line on its place."""

import faulthandler
import sys
import threading
from pathlib import Path
from types import FrameType

from perfkit.core.errors import RunFormatError
from perfkit.flight.flight_record import FlightRecord
from perfkit.flight.mismatch_text import describe_position
from perfkit.flight.record_file import read_flight_record
from perfkit.instruments.stacks.file_owners import find_owner
from perfkit.store.layout import FLIGHT_FILE
from perfkit.store.stacks import PROGRAM

_STACKS = "stacks.txt"


def leave_report(folder: Path) -> str:
    """Write the stacks and the flight record into `folder`, and describe where the rank is: `, waiting in all_reduce 12
    of default_pg at train.py:7 (loss)`, or the last collective, and the main thread's line in the program."""
    from perfkit.measure.rank.flight_dump import save_flight_record

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _STACKS).open("w") as file:
        faulthandler.dump_traceback(file)
    save_flight_record(folder)
    record = _read_record(folder / FLIGHT_FILE)
    position = "" if record is None else describe_position(record)
    return position if record is not None and record.waits_in is not None else position + _describe_main_thread()


def write_line(text: str) -> None:
    """A line on standard error."""
    if sys.stderr is not None:
        sys.stderr.write(f"perfkit: {text}\n")
        sys.stderr.flush()


def _read_record(path: Path) -> FlightRecord | None:
    try:
        return read_flight_record(path) if path.is_file() else None
    except RunFormatError:
        return None


def _describe_main_thread() -> str:
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and find_owner(frame.f_code.co_filename) != PROGRAM:
        frame = frame.f_back
    return "" if frame is None else f", at {frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})"
