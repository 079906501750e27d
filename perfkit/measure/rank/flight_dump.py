"""Leaving the flight record of a rank that does not end well: which collectives it had entered, and where."""

from pathlib import Path

from perfkit.flight.record_file import write_flight_record
from perfkit.instruments.facts.recorded_collectives import GLOO_RECORDER, NCCL_RECORDER, load_recorder
from perfkit.measure.launch.dump_mark import dump_marked
from perfkit.store.layout import FLIGHT_FILE

_RECORDERS = (NCCL_RECORDER, GLOO_RECORDER)


def save_flight_record(folder: Path) -> None:
    """Write the contents of torch's flight recorder into this rank's folder; nothing if it is empty.

    Only NCCL's collectives if there are any, as on GPUs, else Gloo's: the two recorders have separate numbers. torch
    always records, in timed steps as in any others, unless the program turns it off.
    """
    with dump_marked(folder):
        for name in _RECORDERS:
            dump = load_recorder(name, collectives=True, stacks=True)
            if dump.get("entries"):
                write_flight_record(folder / FLIGHT_FILE, dump)
                return


def count_collectives() -> tuple[int, int]:
    """The collectives that this rank has entered and those that have ended, of all groups; quick, since the recorded
    ones are left out."""
    entered = ended = 0
    for name in _RECORDERS:
        groups: dict[str, dict[str, int]] = load_recorder(name, collectives=False).get("pg_status", {})
        for group in groups.values():
            entered += max(group.get("last_enqueued_collective", 0), 0)
            ended += max(group.get("last_completed_collective", 0), 0)
    return entered, ended
