"""The outcome of a run, from its ranks' files."""

import contextlib
import os
import re
import shutil
import signal
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from perfkit.core.errors import RunFormatError
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RankWait, RunResult, format_rank_reason
from perfkit.core.spec import LaunchSpec, RunSpec
from perfkit.core.units import format_seconds
from perfkit.flight.flight_record import DEFAULT_GROUP, FlightRecord
from perfkit.flight.match import find_mismatches
from perfkit.flight.mismatch import DIFFERING, Mismatch, MismatchedCollective
from perfkit.flight.mismatch_text import describe_absence, describe_crossing, describe_disagreement, format_ranks
from perfkit.measure.launch.launcher import ExitCodes
from perfkit.store.layout import OUTPUT_FILE, RECORD_FILE, find_flight_file, get_agent_log, get_rank_folder


def read_flight_records(folder: Path, ranks: Sequence[int]) -> dict[int, FlightRecord]:
    """Read the flight records of `ranks`, all of the run, by rank; records in an unknown format of torch are left
    out."""
    from perfkit.flight.flight_dumps import read_dump  # a successful run does not need the reader of flight records

    records = {}
    for rank in ranks:
        if (file := find_flight_file(folder, rank)) is not None:
            with contextlib.suppress(RunFormatError):
                records[rank] = _add_members(read_dump(str(file)), tuple(ranks))
    return records


def _add_members(record: FlightRecord, ranks: tuple[int, ...]) -> FlightRecord:
    """Gloo's dumps lack the ranks of groups; all are in the default group."""
    groups = {
        name: group
        if group.ranks or group.description != DEFAULT_GROUP
        else msgspec.structs.replace(group, ranks=ranks)
        for name, group in record.groups.items()
    }
    return msgspec.structs.replace(record, groups=groups)


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
    if meeting.mismatch is Mismatch.CROSSED:
        return describe_crossing(meeting)
    where = f"collective {meeting.sequence} of group {meeting.group.label}"
    return f"ranks disagree on {where}: {describe_disagreement(meeting)}"


_TAIL_BYTES = 8192
_LEAST_FREE_BYTES = 1 << 16  # with less a rank cannot write its record and its log

# Messages of a rank that has lost another: from Gloo, NCCL, torch.distributed and the system.
_LOST_ANOTHER = re.compile(
    r"gloo/transport/|NCCL error|ncclRemoteError|NCCL communicator was aborted|ProcessGroup(NCCL|Gloo|MPI|XCCL)\b"
    r"|\bDist(Backend|Network|Store)?Error\b|[Ww]atchdog caught collective|monitoredBarrier|caused pair closure"
    r"|Timed out waiting \d+ms for (send|recv)|Connection (closed by peer|reset|refused)|Broken pipe"
    r"|Socket (closed|Timeout)"
)
_BY_PERFKIT = (-signal.SIGTERM, -signal.SIGKILL)


class _EndRole(IntEnum):
    """Explanatory power of a rank's end, strongest first."""

    CAUSE = 0
    LOST_ANOTHER = 1  # in a collective or connection, since the rank at its other end has gone
    ENDED_BY_US = 2
    SKIPPED = 3
    OK = 4


class _RankEnd(NamedTuple):
    """The end of a rank; the smallest explains the run: by role, then by who ended first."""

    role: _EndRole
    place: int
    rank: int
    status: RunStatus
    reason: str
    reason_id: str = ""


def determine_outcome(
    spec: RunSpec,
    folder: Path,
    ended: RunStatus | None,
    exits: ExitCodes,
    terminated: bool = False,
    raised: Sequence[int] = (),
) -> RunResult:
    """The status of a run: `ended` if the parent ended it, else that of the rank that explains it, which is named.

    That is the first one that ended without losing another. Of ranks that had raised before their time was over, it is
    the first. `terminated` means SIGTERM, not Ctrl-C. For a failed run, the reason includes where each rank was.
    """
    run = _determine_status(spec, folder, ended, exits, terminated, raised)
    if run.status in (RunStatus.OK, RunStatus.SKIPPED):
        return run
    records = read_flight_records(folder, range(spec.launch.world_size))
    reasons = [run.reason]
    if run.status == RunStatus.TIMEOUT:
        reasons += [describe_mismatch(records), _describe_unresponsive(exits)]
    elif run.status == RunStatus.CRASHED:
        reasons.insert(0, _describe_differing(records))
    return msgspec.structs.replace(run, reason="; ".join(filter(None, reasons)), rank_waits=list_rank_waits(records))


def find_raised_ranks(spec: RunSpec, folder: Path) -> tuple[int, ...]:
    """The ranks that have recorded an error of their own and may not have ended."""
    running = ExitCodes((None,) * spec.launch.world_size)
    ends = [_read_rank_end(folder, rank, running) for rank in range(spec.launch.world_size)]
    errors = (RunStatus.FAILED, RunStatus.OUT_OF_MEMORY)
    return tuple(end.rank for end in ends if end.role == _EndRole.CAUSE and end.status in errors)


def _describe_unresponsive(exits: ExitCodes) -> str:
    """`rank 1 did not end on SIGTERM`; "" where all did."""
    killed = [rank for rank, code in enumerate(exits.codes) if code == -signal.SIGKILL and rank not in exits.order]
    return f"{format_ranks(killed)} did not end on SIGTERM" if killed else ""


def _describe_differing(records: dict[int, FlightRecord]) -> str:
    """The calls of a collective that ranks entered with different arguments, which ends Gloo's ranks by SIGABRT."""
    return next(
        (_format_mismatch(meeting) for meeting in find_mismatches(records) if meeting.mismatch in DIFFERING), ""
    )


def _determine_status(
    spec: RunSpec,
    folder: Path,
    ended: RunStatus | None,
    exits: ExitCodes,
    terminated: bool,
    raised: Sequence[int],
) -> RunResult:
    exit_codes = exits.codes
    tail = _collect_output_tail(spec.launch, folder)
    if ended == RunStatus.TIMEOUT and not raised:
        limit = format_seconds(spec.launch.timeout_s)
        return RunResult(
            status=ended, reason=f"timed out after {limit} (--timeout)", output_tail=tail, exit_codes=exit_codes
        )
    if ended == RunStatus.INTERRUPTED:
        reason = "terminated (SIGTERM)" if terminated else "interrupted by Ctrl-C"
        return RunResult(status=ended, reason=reason, output_tail=tail, exit_codes=exit_codes)
    first = min(_read_rank_end(folder, rank, exits) for rank in raised or range(len(exit_codes)))
    if first.status == RunStatus.OK:
        return RunResult(status=first.status, reason=first.reason, exit_codes=exit_codes)
    tail = _collect_output_tail(spec.launch, folder, first.rank)
    return RunResult(
        status=first.status, reason=first.reason, reason_id=first.reason_id, output_tail=tail, exit_codes=exit_codes
    )


def _read_rank_end(folder: Path, rank: int, exits: ExitCodes) -> _RankEnd:
    path, code, order = get_rank_folder(folder, rank) / RECORD_FILE, exits.codes[rank], exits.order
    record = read_json(path, RankRecord) if path.exists() else None
    place = order.index(rank) if rank in order else len(order)
    if record is None or record.status == RunStatus.CRASHED:
        by_us = rank not in order and bool(order) and code in _BY_PERFKIT
        if by_us and record is not None and record.samples.wall_s:
            return _RankEnd(
                _EndRole.OK, place, rank, RunStatus.OK, ""
            )  # it waited in a pass that another rank had left
        status, reason = _describe_crash(rank, code, exits.untold)
        if code is not None and code > 0 and _is_disk_full(folder):
            reason = f"rank {rank} ended with exit code {code}: no space is left on the disk of {folder}"
        return _RankEnd(_EndRole.ENDED_BY_US if by_us else _EndRole.CAUSE, place, rank, status, reason)
    role = _EndRole.CAUSE
    if record.status in (RunStatus.OK, RunStatus.SKIPPED):
        role = _EndRole.OK if record.status == RunStatus.OK else _EndRole.SKIPPED
    elif record.status == RunStatus.FAILED and _LOST_ANOTHER.search(f"{record.reason}\n{record.traceback}"):
        role = _EndRole.LOST_ANOTHER
    return _RankEnd(role, place, rank, record.status, format_rank_reason(record), record.reason_id)


def _describe_crash(rank: int, code: int | None, untold: str = "") -> tuple[RunStatus, str]:
    if code is None:
        return RunStatus.CRASHED, untold
    if code == -signal.SIGKILL:
        return RunStatus.CRASHED, f"rank {rank} was killed (SIGKILL), usually by the kernel when memory runs out"
    if code < 0:
        return RunStatus.CRASHED, f"rank {rank} was terminated by {signal.Signals(-code).name}"
    return RunStatus.CRASHED, f"rank {rank} ended with exit code {code} and gave no reason; see its {OUTPUT_FILE}"


def _is_disk_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < _LEAST_FREE_BYTES


def is_killed_by_system(run: RunResult) -> bool:
    """True if the system killed a rank (SIGKILL), usually because memory ran out."""
    killed = (rank for rank, code in enumerate(run.exit_codes) if code == -signal.SIGKILL)
    return any((run.status, run.reason) == _describe_crash(rank, -signal.SIGKILL) for rank in killed)


def _collect_output_tail(launch: LaunchSpec, folder: Path, first: int = 0) -> str:
    """The last lines printed by the ranks, including `first`; without any, the launcher's output."""
    ranks = sorted(range(launch.world_size), key=lambda rank: rank != first)
    tails = {f"rank {rank}": _read_tail(get_rank_folder(folder, rank) / OUTPUT_FILE) for rank in ranks}
    if not any(tails.values()):
        tails = {launch.launcher: _read_tail(get_agent_log(folder, 0))}
    return "\n\n".join(f"{who}:\n{tail}" for who, tail in tails.items() if tail)


def _read_tail(log: Path) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read(_TAIL_BYTES).decode(errors="replace").strip()
