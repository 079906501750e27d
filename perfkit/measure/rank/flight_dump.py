"""Leaving the flight record of a rank that does not end well: which collectives it had entered, and where."""

import pickle
from pathlib import Path
from typing import Any

import torch._C._distributed_c10d as c10d

from perfkit.flight.record_file import write_flight_record
from perfkit.measure.launch.dump_mark import dump_marked
from perfkit.store.layout import FLIGHT_FILE

# NCCL's and Gloo's. Each takes whether to have collectives, their stacks, and only those that have not ended. A build
# without NCCL lacks the first.
_RECORDERS = ("_dump_nccl_trace", "_dump_fr_trace")


def save_flight_record(folder: Path) -> None:
    """Write the contents of torch's flight recorder into this rank's folder; nothing if it is empty.

    Only NCCL's collectives if there are any, as on GPUs, else Gloo's: the two recorders have separate numbers. torch
    always records, in timed steps as in any others, unless the program turns it off.
    """
    with dump_marked(folder):
        for name in _RECORDERS:
            dumped = getattr(c10d, name, None)
            # The pickle is this process's own, made by the call.
            dump: dict[str, Any] = {} if dumped is None else pickle.loads(dumped(True, True, False))
            if dump.get("entries"):
                write_flight_record(folder / FLIGHT_FILE, dump)
                return


def count_collectives() -> tuple[int, int]:
    """The collectives that this rank has entered and those that have ended, of all groups; quick, since the recorded
    ones are left out."""
    entered = ended = 0
    for name in _RECORDERS:
        dumped = getattr(c10d, name, None)
        groups: dict[str, dict[str, int]] = {} if dumped is None else _load(dumped(False, False, False), "pg_status")
        for group in groups.values():
            entered += max(group.get("last_enqueued_collective", 0), 0)
            ended += max(group.get("last_completed_collective", 0), 0)
    return entered, ended


def _load(dump: bytes, key: str) -> Any:
    """Part of a dump; the pickle is this process's own, made by the call."""
    return pickle.loads(dump).get(key, {})
