"""Builds the report data from dumps of torch's flight recorder."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import perfkit
from perfkit.analysis.flight.flight_findings import build_flight_findings
from perfkit.analysis.model.estimate import Provenance
from perfkit.analysis.model.flight import DumpedRank, FlightAnalysis
from perfkit.core.errors import RunFormatError
from perfkit.core.note import Note, make_note
from perfkit.flight.flight_dumps import map_ranks, read_dump
from perfkit.flight.flight_record import FlightRecord
from perfkit.flight.match import find_mismatches


def analyze_flight(files: Sequence[str], *, command: str = "") -> FlightAnalysis:
    """Analyze dumps of the flight recorders of a job's ranks, numbered by file or folder name.

    An unreadable file becomes a warning where others can be read; else its error is raised (`RunFormatError`). Files
    without a rank in their names, or with the same one, are a `UsageError`.
    """
    named = map_ranks(files)
    records: dict[int, FlightRecord] = {}
    failed: list[RunFormatError] = []
    for rank, file in named.items():
        try:
            records[rank] = read_dump(file)
        except RunFormatError as error:
            failed.append(error)
    if not records:
        raise failed[0]
    meetings = find_mismatches(records)
    ranks = tuple(_build_rank_row(rank, named[rank], record) for rank, record in records.items())
    return FlightAnalysis(
        title=_make_title(files),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        ranks=ranks,
        mismatched_collectives=meetings,
        findings=build_flight_findings(meetings, ranks),
        provenance=_build_provenance(ranks),
        warnings=(
            *(make_note("flight.skipped", f"skipped: {error}", error_id=error.id) for error in failed),
            *_list_missing_dumps(records),
        ),
    )


def _build_rank_row(rank: int, file: str, record: FlightRecord) -> DumpedRank:
    collective = record.waits_in or record.last
    return DumpedRank(
        rank=rank,
        file=file,
        version=record.version,
        collectives=len(record.collectives),
        dropped=record.dropped,
        unfinished=sum(not call.finished for call in record.collectives),
        pending_collective=record.waits_in,
        last_collective=record.last,
        group="" if collective is None else record.groups[collective.group].label,
    )


def _list_missing_dumps(records: dict[int, FlightRecord]) -> tuple[Note, ...]:
    """Ranks that a group has and of which no dump was given."""
    members = {rank for record in records.values() for group in record.groups.values() for rank in group.ranks}
    lacking = sorted(members - set(records))
    if not lacking:
        return ()
    shown = ", ".join(map(str, lacking[:10])) + (", ..." if len(lacking) > 10 else "")
    text = f"no dump from {len(lacking)} of {len(members)} ranks (rank {shown}): state unknown"
    return (make_note("flight.missing_dumps", text, missing=len(lacking), ranks=len(members)),)


def _make_title(files: Sequence[str]) -> str:
    first = Path(files[0])
    return first.name if len(files) == 1 else f"{len(files)} dumps of {first.absolute().parent.name or 'ranks'}"


def _build_provenance(ranks: Sequence[DumpedRank]) -> tuple[Provenance, ...]:
    versions = ", ".join(sorted({rank.version for rank in ranks}))
    kept = sum(rank.collectives for rank in ranks)
    return (
        Provenance(
            figure="collectives", how="recorded", detail=f"{kept:,}, from torch's flight recorder (format {versions})"
        ),
        Provenance(
            figure="finished collectives",
            how="recorded",
            detail="NCCL: event after the kernel; Gloo: removed from the queue, with or without an error",
        ),
        Provenance(
            figure="missing ranks",
            how="derived",
            detail="collectives matched by sequence number in their process group, from the first that all dumps "
            "contain; "
            "messages matched by source and destination",
        ),
    )
