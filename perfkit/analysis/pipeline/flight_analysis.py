"""Builds the report data from dumps of torch's flight recorder."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import perfkit
from perfkit.analysis.flight.flight_findings import build_flight_findings
from perfkit.analysis.model.estimate import Provenance
from perfkit.analysis.model.flight import DumpedRank, FlightAnalysis
from perfkit.analysis.parallel import engines
from perfkit.core.errors import PerfkitError
from perfkit.core.note import Note, make_note
from perfkit.flight.flight_columns import JobRecords, PackedRecord, pack_record
from perfkit.flight.flight_dumps import map_ranks, read_dump
from perfkit.flight.match import find_mismatches
from perfkit.flight.mismatch_text import format_ranks

# Files that are read before a process would have started.
_FEW = 16


def analyze_flight(files: Sequence[str], *, command: str = "", jobs: int | None = None) -> FlightAnalysis:
    """Analyze dumps of the flight recorders of a job's ranks, numbered by file or folder name.

    An unreadable file becomes a warning where others can be read; else its error is raised (`RunFormatError`). Files
    without a rank in their names, or with the same one, are a `UsageError`. For `jobs` see `engines.run_parallel`; a
    few files are read in this process.
    """
    named = map_ranks(files)
    failed: dict[str, PerfkitError] = {}
    rank_of = {file: rank for rank, file in named.items()}
    job = JobRecords()
    for file, result in engines.run_parallel(read_packed, list(rank_of), jobs=1 if len(named) <= _FEW else jobs):
        if isinstance(result, PerfkitError):
            failed[file] = result
        else:
            job.add(rank_of[file], result)
    skipped = [failed[file] for file in rank_of if file in failed]
    if not job.ranks:
        raise skipped[0]
    meetings = find_mismatches(job)
    ranks = tuple(_build_rank_row(rank, named[rank], job) for rank in sorted(job.ranks))
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
            *(make_note("flight.skipped", f"skipped: {error}", error_id=error.id) for error in skipped),
            *_list_missing_dumps(job),
        ),
    )


def read_packed(file: str) -> PackedRecord:
    """Read a dump into columns: the function that workers run."""
    return pack_record(read_dump(file))


def _build_rank_row(rank: int, file: str, job: JobRecords) -> DumpedRank:
    rows = job.ranks[rank]
    pending, last = job.find_pending_call(rank), job.find_last_call(rank)
    collective = pending or last
    return DumpedRank(
        rank=rank,
        file=file,
        version=rows.version,
        collectives=len(rows.call),
        dropped=rows.dropped,
        unfinished=int((~rows.finished).sum()),
        pending_collective=pending,
        last_collective=last,
        group="" if collective is None else rows.groups[collective.group].label,
    )


def _list_missing_dumps(job: JobRecords) -> tuple[Note, ...]:
    """Ranks that a group has and of which no dump was given."""
    members = {rank for group in job.groups for rank in group.ranks}
    lacking = sorted(members - set(job.ranks))
    if not lacking:
        return ()
    text = f"no dump from {len(lacking)} of {len(members)} ranks ({format_ranks(lacking)}): state unknown"
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
