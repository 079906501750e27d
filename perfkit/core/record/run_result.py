"""`run.json`: how one launch ended, and why."""

from collections.abc import Iterable

from perfkit.core.record.environment import MachineLoad
from perfkit.core.record.rank_record import RECORD_VERSION, RankRecord, RunStatus
from perfkit.core.spec import Struct


class RankWait(Struct):
    """Position of a rank when its run failed, from torch's flight recorder: the collective that it waited in.

    `finished` is whether it had ended: then it is the last one that the rank entered, of Gloo with or without an error.
    `sequence` is its number within its process group. `tensors` are shapes and dtypes (`[4, 1024] fp32`), `bytes` None
    where a dtype is not known. `call_site` is the innermost line that is not torch's (`train.py:12 (loss)`); "" where
    none was recorded.
    """

    rank: int
    op: str
    group: str
    sequence: int
    finished: bool
    tensors: str = ""
    bytes: int | None = None
    call_site: str = ""


class RunResult(Struct):
    """The parent's record of one launch: `run.json`, next to the ranks' records.

    `interleaved_variants` names the variants whose runs were resident at the same time, including its own, and stepped
    by turns: the n-th samples of all belong to the same turn. Empty if it ran alone. `load` is the machine's other
    load. `rank_waits` gives the position of each rank of a failed run, as far as recorded. `reason_id` is the stable id
    of the reason's error (`skip.package`); "" if it has none.
    """

    schema_version: int = RECORD_VERSION
    status: RunStatus
    reason: str = ""
    reason_id: str = ""
    output_tail: str = ""
    exit_codes: tuple[int | None, ...] = ()
    started_at: str = ""  # ISO 8601, UTC
    seconds: float = 0.0
    perfkit: str = ""
    interleaved_variants: tuple[str, ...] = ()
    load: MachineLoad | None = None
    rank_waits: tuple[RankWait, ...] = ()


def format_rank_reason(record: RankRecord) -> str:
    """Format why a rank failed, with the rank's number unless the reason concerns all ranks."""
    if record.world_size == 1 or not record.reason or record.status == RunStatus.SKIPPED:
        return record.reason
    return f"rank {record.rank}: {record.reason}"


def find_traceback(run: RunResult, records: Iterable[RankRecord]) -> str:
    """The traceback of the rank that explains how `run` ended; "" where it left none."""
    fitting = (record for record in records if record.traceback and record.status == run.status)
    return next(
        (record.traceback for record in fitting if run.reason in (record.reason, format_rank_reason(record))), ""
    )
