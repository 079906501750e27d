"""How a run ended, from what its ranks left behind."""

import signal
from pathlib import Path

from perfkit.files import read_json
from perfkit.record import RankRecord, Run, Status
from perfkit.spec import RunSpec
from perfkit.store.layout import OUTPUT_FILE, RECORD_FILE, rank_folder
from perfkit.units import seconds

_TAIL_BYTES = 8192

# The order in which ranks' ends explain a run: the cause before what it did to the others.
_SEVERITY = (Status.OUT_OF_MEMORY, Status.FAILED, Status.CRASHED, Status.SKIPPED, Status.OK)


def outcome(spec: RunSpec, folder: Path, ended: Status | None, exit_codes: tuple[int | None, ...]) -> Run:
    """The status of a run: `ended` where the parent ended it, else the status of the rank that explains it best."""
    tail = _output_tail(folder, spec.launch.world_size)
    if ended == Status.TIMEOUT:
        limit = seconds(spec.launch.timeout_s)
        return Run(status=ended, reason=f"not done after {limit} (--timeout)", output_tail=tail, exit_codes=exit_codes)
    if ended == Status.INTERRUPTED:
        return Run(status=ended, reason="interrupted from the keyboard", output_tail=tail, exit_codes=exit_codes)
    ends = [_rank_end(folder, rank, code) for rank, code in enumerate(exit_codes)]
    status, reason = min(ends, key=lambda end: _SEVERITY.index(end[0]))
    return Run(status=status, reason=reason, output_tail="" if status == Status.OK else tail, exit_codes=exit_codes)


def _rank_end(folder: Path, rank: int, code: int | None) -> tuple[Status, str]:
    path = rank_folder(folder, rank) / RECORD_FILE
    record = read_json(path, RankRecord) if path.exists() else None
    if record is not None and record.status != Status.CRASHED:
        return record.status, record.reason
    if code == -signal.SIGKILL:
        return Status.CRASHED, f"rank {rank} was killed (SIGKILL), most often by the system when memory runs out"
    if code is not None and code < 0:
        return Status.CRASHED, f"rank {rank} was ended by {signal.Signals(-code).name}"
    return Status.CRASHED, f"rank {rank} ended with exit code {code} before it could say why; see its {OUTPUT_FILE}"


def _output_tail(folder: Path, world_size: int) -> str:
    """The last lines that the ranks printed."""
    parts = []
    for rank in range(world_size):
        path = rank_folder(folder, rank) / OUTPUT_FILE
        if path.exists() and (data := path.read_bytes()[-_TAIL_BYTES:]):
            parts.append(f"rank {rank}:\n{data.decode(errors='replace').strip()}")
    return "\n\n".join(parts)
