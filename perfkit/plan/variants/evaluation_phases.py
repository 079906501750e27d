"""Plans evaluation: one step without gradients, and a loop that keeps the outputs of all batches."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.plan import PlannedPhase, PlannedVariant, make_exact, sum_intervals
from perfkit.core.record.quantity import Unknown
from perfkit.core.units import format_bytes
from perfkit.devices.accelerator import is_cpu
from perfkit.plan.gpu_memory.device_memory import compute_device_memory
from perfkit.plan.rehearsal.evaluation import RehearsedEvaluation
from perfkit.plan.rehearsal.rehearsal import RehearsedStep, list_changes
from perfkit.plan.target.target import Target
from perfkit.plan.timing.variant_time import add_time
from perfkit.plan.variants.kept_outputs import compute_kept_outputs
from perfkit.plan.variants.peak_cause import LARGEST, describe_cause
from perfkit.plan.variants.verdict import judge_phase

EVALUATION, EVALUATION_KEPT = "evaluation", "evaluation_kept"


class Evaluation(NamedTuple):
    """An evaluation loop.

    Attributes:
        batch_size: samples of a batch of one rank.
        batches: batches whose outputs the loop keeps for its metrics; None if it keeps none.
        accumulation: batches after which what is kept moves to main memory; None if it stays on the device.
    """

    batch_size: int
    batches: int | None = None
    accumulation: int | None = None


def plan_evaluation(
    rehearsed: RehearsedStep, world_size: int, target: Target, threads: int, asked: Evaluation
) -> Iterator[PlannedPhase]:
    """An evaluation step, and the loop with kept outputs if it is asked for."""
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
        needed = make_exact(account.peak_bytes)
    else:
        memory = compute_device_memory(step, account, target, world_size)
        needed = sum_intervals([memory.peak.bounds, *(row.bytes for row in memory.beyond)])
    timed = add_time(PlannedVariant(name="", world_size=world_size), found.issued, target, threads)
    first = PlannedPhase(
        phase=EVALUATION,
        needed=needed,
        seconds=None if timed.step_s is None else timed.step_s.total,
        cause=describe_cause(account),
        time_reason=timed.step_reason,
        categories={share.category: share.bytes for share in account.categories},
        largest=account.largest_blocks[:LARGEST],
    )
    yield judge_phase(first, target)
    if asked.batches is not None:
        yield judge_phase(_keep_outputs(first, found, account.peak_bytes - rehearsed.held_bytes, target, asked), target)


def _keep_outputs(
    step: PlannedPhase, found: RehearsedEvaluation, forward_bytes: int, target: Target, asked: Evaluation
) -> PlannedPhase:
    """The loop whose step is planned already and takes `forward_bytes` above what is held."""
    assert asked.batches is not None
    assert step.needed is not None
    if not found.logits_bytes:
        return PlannedPhase(phase=EVALUATION_KEPT, reason="the model returns no logits")
    more = compute_kept_outputs(found, forward_bytes, asked.batches, asked.accumulation, on_cpu=is_cpu(target.kind))
    kept = asked.batches if asked.accumulation is None else min(asked.batches, asked.accumulation)
    logits = found.copies * found.logits_bytes
    of_ranks = f" of {found.copies} ranks" if found.copies > 1 else ""
    cause = f"logits{of_ranks} of {kept} batches, {format_bytes(logits)} each, joined to one tensor"
    if asked.accumulation is None and not is_cpu(target.kind):
        cause += "; eval_accumulation_steps keeps fewer"
    return replace(
        step,
        phase=EVALUATION_KEPT,
        needed=sum_intervals([step.needed, make_exact(more.device)]),
        host_bytes=more.host,
        cause=cause,
        categories={},
        largest=(),
    )
