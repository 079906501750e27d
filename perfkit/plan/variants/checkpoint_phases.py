"""Plans saving a checkpoint: full, in rank 0, or sharded."""

from collections.abc import Iterator

from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, PlannedPhase, PlannedVariant, make_exact, sum_intervals
from perfkit.core.units import format_bytes
from perfkit.devices.accelerator import is_cpu
from perfkit.plan.gpu_memory.device_memory import REHEARSAL_ERROR
from perfkit.plan.rehearsal.rehearsal import RehearsedStep
from perfkit.plan.rehearsal.saved_state import SavedState
from perfkit.plan.target.disk import load_disk
from perfkit.plan.target.target import Target
from perfkit.plan.timing.host_link import find_host_link
from perfkit.plan.variants.verdict import judge_phase

CHECKPOINT_FULL, CHECKPOINT_SHARDED = "checkpoint_full", "checkpoint_sharded"

_NO_DISK = "write speed unknown: --disk"


def plan_checkpoints(rehearsed: RehearsedStep, variant: PlannedVariant, target: Target) -> Iterator[PlannedPhase]:
    """Saving all in rank 0, and of several ranks each its part; nothing where nothing is saved."""
    saved = rehearsed.saved
    if not saved.own:
        return
    yield judge_phase(_plan_full(rehearsed, saved, variant, target), target)
    if variant.world_size > 1:
        yield judge_phase(_plan_sharded(rehearsed, saved, variant, target), target)


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
        whole = gathered + (saved.largest if gathered else 0)
        more = Interval(value=whole, low=gathered, high=whole)
        host = 0
    else:
        more = Interval(value=saved.largest, low=saved.largest, high=2 * saved.largest) if gathered else make_exact(0)
        host = gathered or saved.largest
    return _make_checkpoint(CHECKPOINT_FULL, rehearsed, variant, target, more, (host, saved.whole), cause)


def _plan_sharded(rehearsed: RehearsedStep, saved: SavedState, variant: PlannedVariant, target: Target) -> PlannedPhase:
    """torch.distributed.checkpoint: each rank writes what it has; of what all have, each writes a part."""
    written = -(-saved.whole // variant.world_size)
    host = 0 if is_cpu(target.kind) else saved.largest_own
    cause = f"each rank writes {format_bytes(written)}, one tensor at a time"
    return _make_checkpoint(CHECKPOINT_SHARDED, rehearsed, variant, target, make_exact(0), (host, written), cause)


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
        needed=sum_intervals([stands, more, *(row.bytes for row in variant.outside_allocator)]),
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
    return replace(sum_intervals([write, copy]), low=max(write.low, copy.low))


def _time_writing(written: int, target: Target) -> Interval | None:
    if target.disk_bytes_per_s is not None:
        return make_exact(written / target.disk_bytes_per_s)
    disk = load_disk() if is_cpu(target.kind) else None
    return None if disk is None else disk.write.seconds(written)
