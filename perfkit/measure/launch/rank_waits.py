"""Waits of a failed run's ranks: the collective that each was in, and the first that they did not all reach."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from perfkit.core.errors import RunFormatError
from perfkit.core.record import RankWait
from perfkit.flight.flight_record import FlightRecord
from perfkit.flight.match import Mismatch, MismatchedCollective, find_mismatches
from perfkit.flight.mismatch_text import describe_absence, describe_disagreement
from perfkit.store.layout import find_flight_file


def read_flight_records(folder: Path, ranks: Iterable[int]) -> dict[int, FlightRecord]:
    """Read the ranks' flight records, by rank; records in an unknown format of torch are left out."""
    from perfkit.flight.flight_dumps import read_dump  # a successful run does not need the reader of flight records

    records = {}
    for rank in ranks:
        if (file := find_flight_file(folder, rank)) is not None:
            with contextlib.suppress(RunFormatError):
                records[rank] = read_dump(str(file))
    return records


def list_rank_waits(records: dict[int, FlightRecord]) -> tuple[RankWait, ...]:
    """List the current wait of each rank with a record, else its last collective."""
    return tuple(
        wait for rank, record in sorted(records.items()) if (wait := _build_rank_wait(rank, record)) is not None
    )


def _build_rank_wait(rank: int, record: FlightRecord) -> RankWait | None:
    call = record.waits_in or record.last
    if call is None:
        return None
    return RankWait(
        rank=rank,
        op=call.op,
        group=record.groups[call.group].label,
        sequence=call.sequence,
        finished=call.finished,
        tensors=str(call.tensors),
        bytes=call.tensors.bytes,
        call_site=call.call_site,
    )


def describe_mismatch(records: dict[int, FlightRecord]) -> str:
    """`rank 1 never entered all_reduce 12 of default_pg, in which rank 0 waits`; "" where all met."""
    return next((description for meeting in find_mismatches(records) if (description := _format_mismatch(meeting))), "")


def _format_mismatch(meeting: MismatchedCollective) -> str:
    if meeting.mismatch is Mismatch.UNFINISHED:
        return ""  # it may have been about to
    if meeting.mismatch is Mismatch.ABSENT:
        return describe_absence(meeting)
    where = f"collective {meeting.sequence} of group {meeting.group.label}"
    return f"ranks disagree on {where}: {describe_disagreement(meeting)}"
