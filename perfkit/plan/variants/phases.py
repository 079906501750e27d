"""Plans the phases of a rank's work: the first step, the steps after it, evaluation, and saving a checkpoint."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.plan import Interval, PlannedPhase, PlannedVariant, make_exact, sum_intervals
from perfkit.core.allocations import Allocations
from perfkit.devices.accelerator import is_cpu
from perfkit.plan.gpu_memory.device_memory import compute_device_memory
from perfkit.plan.rehearsal.rehearsal import RehearsedStep
from perfkit.plan.target.target import Target
from perfkit.plan.variants.checkpoint_phases import plan_checkpoints
from perfkit.plan.variants.evaluation_phases import Evaluation, plan_evaluation
from perfkit.plan.variants.peak_cause import LARGEST, describe_cause
from perfkit.plan.variants.verdict import judge_phase

FIRST_STEP, STEP = "first_step", "step"


def plan_phases(
    rehearsed: RehearsedStep, variant: PlannedVariant, target: Target, threads: int, evaluation: Evaluation | None
) -> Iterator[PlannedPhase]:
    """The phases of a planned variant, in the order of time; `threads` are a CPU rank's."""
    if rehearsed.first is not None:
        yield judge_phase(_plan_first_step(rehearsed, rehearsed.first, variant, target), target)
    if variant.memory is not None:
        yield judge_phase(_plan_step(variant, variant.memory), target)
    if evaluation is not None:
        yield from plan_evaluation(rehearsed, variant.world_size, target, threads, evaluation)
    yield from plan_checkpoints(rehearsed, variant, target)


def find_deciding_phase(phases: Sequence[PlannedPhase]) -> str:
    """The phase that needs most, the later of equal ones (the steps, not the first); "" if none is known."""
    known = [(phase.needed.high, phase.phase) for phase in reversed(phases) if phase.needed is not None]
    return max(known, key=lambda each: each[0], default=(0.0, ""))[1]


def _plan_first_step(
    rehearsed: RehearsedStep, allocations: Allocations, variant: PlannedVariant, target: Target
) -> PlannedPhase:
    """The step that makes the optimizer state: nothing of it exists in its forward and backward pass."""
    if any(rehearsed.graphed):
        return PlannedPhase(phase=FIRST_STEP, reason="what recording CUDA graphs takes is not planned")
    account = build_memory_account(allocations)
    if account is None:
        return PlannedPhase(phase=FIRST_STEP, reason="no memory was allocated")
    if is_cpu(target.kind):
        return _make_step(FIRST_STEP, make_exact(account.peak_bytes), account)
    first = rehearsed._replace(
        allocations=allocations, before=(), step=rehearsed.before, streams=({}, rehearsed.streams[0])
    )
    memory = compute_device_memory(first, account, target, variant.world_size)
    needed = sum_intervals([memory.peak.bounds, *(row.bytes for row in memory.beyond)])
    return _make_step(FIRST_STEP, needed, account)


def _plan_step(variant: PlannedVariant, account: MemoryAccount) -> PlannedPhase:
    """A step after the first, which the variant's own figures are of."""
    step = _make_step(STEP, variant.needed_bytes, account)
    return replace(
        step, seconds=None if variant.step_s is None else variant.step_s.total, time_reason=variant.step_reason
    )


def _make_step(phase: str, needed: Interval | None, account: MemoryAccount) -> PlannedPhase:
    """A step's phase without its time: that of the first, which warms up, is not planned."""
    return PlannedPhase(
        phase=phase,
        needed=needed,
        cause=f"in {account.peak_phase}: {describe_cause(account)}" if account.peak_phase else describe_cause(account),
        time_reason="the first step warms up" if phase == FIRST_STEP else "",
        categories={share.category: share.bytes for share in account.categories},
        largest=account.largest_blocks[:LARGEST],
    )
