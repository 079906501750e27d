"""Plans what a rank does beside training steps: an evaluation step, and saving a checkpoint."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.plan import Interval, PlannedPhase, PlannedVariant
from perfkit.core.record import Unknown
from perfkit.core.units import format_bytes
from perfkit.devices.accelerator import is_cpu
from perfkit.plan.gpu_memory.device_memory import REHEARSAL_ERROR, compute_device_memory
from perfkit.plan.rehearsal.evaluation import RehearsedEvaluation
from perfkit.plan.rehearsal.rehearsal import RehearsedStep, list_changes
from perfkit.plan.rehearsal.saved_state import SavedState
from perfkit.plan.target.disk import load_disk
from perfkit.plan.target.target import Target
from perfkit.plan.timing.host_link import find_host_link
from perfkit.plan.timing.variant_time import add_time
from perfkit.plan.variants.verdict import FIT_IDS, check_fit

EVALUATION, EVALUATION_KEPT = "evaluation", "evaluation_kept"
CHECKPOINT_FULL, CHECKPOINT_SHARDED = "checkpoint_full", "checkpoint_sharded"

_NO_DISK = "write speed unknown: --disk"


class Evaluation(NamedTuple):
    """Samples of an evaluation batch, and the number of batches whose logits the loop keeps; None: it keeps none."""

    batch_size: int
    batches: int | None = None


def plan_phases(
    rehearsed: RehearsedStep, variant: PlannedVariant, target: Target, threads: int, evaluation: Evaluation | None
) -> Iterator[PlannedPhase]:
    """The phases of a planned variant; `threads` are a CPU rank's."""
    if evaluation is not None:
        yield from _plan_evaluation(rehearsed, variant.world_size, target, threads, evaluation.batches)
    yield from _plan_checkpoints(rehearsed, variant, target)


def _plan_evaluation(
    rehearsed: RehearsedStep, world_size: int, target: Target, threads: int, batches: int | None
) -> Iterator[PlannedPhase]:
    found = rehearsed.evaluation
    if not isinstance(found, RehearsedEvaluation):
        yield PlannedPhase(phase=EVALUATION, reason=found.reason if isinstance(found, Unknown) else "not rehearsed")
        return
    between, recorded = (list_changes(each, found.host) for each in found.recorded)
    trained = {len(rehearsed.before) + place: stream for place, stream in rehearsed.streams[1].items()}
    step = rehearsed._replace(
        allocations=found.allocations,
        issued=found.issued,
        before=rehearsed.before + rehearsed.step + between,
        step=recorded,
        graphed=(frozenset(), frozenset()),
        streams=({**rehearsed.streams[0], **trained}, {}),  # those of an evaluation are not known
    )
    account = build_memory_account(step.allocations)
    if account is None:
        yield PlannedPhase(phase=EVALUATION, reason="no memory was allocated")
        return
    if is_cpu(target.kind):
        needed = _make_exact(account.peak_bytes)
    else:
        memory = compute_device_memory(step, account, target, world_size)
        parts = [memory.peak.bounds, *(row.bytes for row in memory.beyond)]
        needed = _sum(parts)
    timed = add_time(PlannedVariant(name="", world_size=world_size), found.issued, target, threads)
    largest = ", ".join(f"{share.category} {format_bytes(share.bytes)}" for share in account.categories[:2])
    seconds = None if timed.step_s is None else timed.step_s.total
    first = PlannedPhase(phase=EVALUATION, needed=needed, seconds=seconds, cause=largest, time_reason=timed.step_reason)
    yield _judge(first, target)
    if batches is None:
        return
    if not found.logits_bytes:
        yield PlannedPhase(phase=EVALUATION_KEPT, reason="the model returns no logits")
        return
    more = compute_kept_bytes(found, account.peak_bytes - rehearsed.held_bytes, batches)
    logits = found.copies * found.logits_bytes
    of_ranks = f" of {found.copies} ranks" if found.copies > 1 else ""
    cause = f"logits{of_ranks}, {format_bytes(logits)} a batch, joined to one tensor"
    kept = PlannedPhase(
        phase=EVALUATION_KEPT,
        needed=_sum([needed, _make_exact(more)]),
        seconds=seconds,
        cause=cause,
        time_reason=timed.step_reason,
    )
    yield _judge(kept, target)


def compute_kept_bytes(evaluation: RehearsedEvaluation, forward_bytes: int, batches: int) -> int:
    """Bytes above the peak of one evaluation step, `forward_bytes` above what is held, of keeping all logits.

    As Transformers' Trainer without `eval_accumulation_steps`: each batch's logits, gathered from all ranks, are joined
    to those before by `torch.cat`, so that the last but one and the last tensor of all logits exist at a time.
    """
    batch = evaluation.copies * evaluation.logits_bytes
    in_forward = (batches - 1) * batch + forward_bytes
    in_join = 2 * batches * batch if batches > 1 else batch
    return max(in_forward, in_join) - forward_bytes


def _plan_checkpoints(rehearsed: RehearsedStep, variant: PlannedVariant, target: Target) -> Iterator[PlannedPhase]:
    saved = rehearsed.saved
    if not saved.own:
        return
    yield _judge(_plan_full(rehearsed, saved, variant, target), target)
    if variant.world_size > 1:
        yield _judge(_plan_sharded(rehearsed, saved, variant, target), target)


def _plan_full(rehearsed: RehearsedStep, saved: SavedState, variant: PlannedVariant, target: Target) -> PlannedPhase:
    """`torch.save` in rank 0: of a state that it has, tensor by tensor; else of one gathered in its main memory.

    torch.distributed.checkpoint.state_dict with full_state_dict and cpu_offload gathers a tensor at a time on the
    device, where a collective has its parts beside the result.
    """
    gathered = saved.whole if saved.is_split else 0
    cause = "one tensor at a time is copied to be written"
    if saved.is_split:
        cause = f"rank 0 gathers all {format_bytes(saved.whole)} in main memory, one tensor at a time"
    if is_cpu(target.kind):
        more = Interval(value=gathered, low=gathered, high=gathered + (saved.largest if gathered else 0))
        host = 0
    else:
        more = Interval(value=saved.largest, low=saved.largest, high=2 * saved.largest) if gathered else _make_exact(0)
        host = gathered or saved.largest
    return _make_checkpoint(CHECKPOINT_FULL, rehearsed, variant, target, more, (host, saved.whole), cause)


def _plan_sharded(rehearsed: RehearsedStep, saved: SavedState, variant: PlannedVariant, target: Target) -> PlannedPhase:
    """torch.distributed.checkpoint: each rank writes what it has; of what all have, each writes a part."""
    written = -(-saved.whole // variant.world_size)
    host = 0 if is_cpu(target.kind) else saved.largest_own
    cause = f"each rank writes {format_bytes(written)}, one tensor at a time"
    return _make_checkpoint(CHECKPOINT_SHARDED, rehearsed, variant, target, _make_exact(0), (host, written), cause)


def _make_checkpoint(
    phase: str,
    rehearsed: RehearsedStep,
    variant: PlannedVariant,
    target: Target,
    more: Interval,
    sizes: tuple[int, int],
    cause: str,
) -> PlannedPhase:
    """A checkpoint that takes `more` than what is held on the device; `sizes` are bytes in main memory and written."""
    host, written = sizes
    error = 0.0 if is_cpu(target.kind) else REHEARSAL_ERROR
    held = rehearsed.held_bytes
    stands = Interval(value=held, low=held * (1 - error), high=held * (1 + error))
    seconds = _time_checkpoint(written, target)
    return PlannedPhase(
        phase=phase,
        needed=_sum([stands, more, *(row.bytes for row in variant.outside_allocator)]),
        host_bytes=host,
        seconds=seconds,
        cause=cause,
        time_reason="" if seconds is not None else _NO_DISK,
    )


def _time_checkpoint(written: int, target: Target) -> Interval | None:
    """Seconds of copying to main memory, on a GPU, and of writing; at best both at a time."""
    write = _time_writing(written, target)
    link = None if target.entry is None else find_host_link(target.entry)
    if write is None or link is None:
        return write
    copy = link.seconds(written)
    return replace(_sum([write, copy]), low=max(write.low, copy.low))


def _time_writing(written: int, target: Target) -> Interval | None:
    if target.disk_bytes_per_s is not None:
        return _make_exact(written / target.disk_bytes_per_s)
    disk = load_disk() if is_cpu(target.kind) else None
    return None if disk is None else disk.write.seconds(written)


def _judge(phase: PlannedPhase, target: Target) -> PlannedPhase:
    if phase.needed is None or target.limit_bytes is None:
        return phase
    return replace(phase, fit=FIT_IDS[check_fit(phase.needed, target.limit_bytes)])


def _make_exact(size: float) -> Interval:
    return Interval(value=size, low=size, high=size)


def _sum(parts: list[Interval]) -> Interval:
    value, low, high = (sum(getattr(part, end) for part in parts) for end in ("value", "low", "high"))
    return Interval(value=value, low=low, high=high)
