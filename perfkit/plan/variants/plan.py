"""Plans the needs of each variant of a bench, without training."""

import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.plan import PlannedPeak, PlannedVariant
from perfkit.core.errors import UnavailableError
from perfkit.core.fit_search import Trials
from perfkit.core.note import Note, make_note
from perfkit.core.spec import RunSpec, format_variant_label
from perfkit.devices.accelerator import is_cpu, is_cuda
from perfkit.devices.catalog.catalog import CatalogEntry
from perfkit.devices.machine.machine import count_available_cores
from perfkit.measure.bench import compute_needed_ranks, find_refusal
from perfkit.measure.schedule import (
    BenchSchedule,
    ScheduledRun,
    SkipReason,
    Techniques,
    build_schedule,
    choose_world_size,
)
from perfkit.measure.world_sizes import set_world_size
from perfkit.plan.gpu_memory.device_memory import compute_device_memory
from perfkit.plan.rehearsal.cuda_dispatch import get_dispatch_key
from perfkit.plan.rehearsal.quiet_libraries import hide_library_remarks
from perfkit.plan.rehearsal.rehearsal import RehearsedStep, rehearse_step
from perfkit.plan.rehearsal.step_ops import StepOp
from perfkit.plan.target.target import CPU, Target
from perfkit.plan.timing.variant_time import add_time
from perfkit.plan.variants.closed_forms import compute_closed_forms
from perfkit.plan.variants.evaluation_phases import Evaluation
from perfkit.plan.variants.phases import find_deciding_phase, plan_phases
from perfkit.plan.variants.verdict import judge_fit
from perfkit.store.request import BenchRequest

PlanOne = Callable[[Techniques], PlannedVariant]  # plans one combination of techniques
Rehearse = Callable[[RunSpec, CatalogEntry | None, int | None], RehearsedStep]  # with the evaluation's batch size
PlanRun = Callable[[ScheduledRun, Target], PlannedVariant]

_NO_REFUSALS: Mapping[str, str] = {}


def plan_variants(
    request: BenchRequest,
    target: Target = CPU,
    refusals: Mapping[str, str] = _NO_REFUSALS,
    plan: PlanRun | None = None,
) -> Iterator[PlannedVariant]:
    """Yield the planned variants of a bench on a device, baselines first, as each is done.

    `refusals` has the reasons for variants that cannot be planned; `plan` plans each, `plan_variant` without one.
    """
    return ((plan or plan_variant)(run, target) for run in plan_schedule(request, target, refusals).runs)


def plan_schedule(
    request: BenchRequest, target: Target = CPU, refusals: Mapping[str, str] = _NO_REFUSALS
) -> BenchSchedule:
    """The planned runs. Missing GPU features are found during the rehearsal."""

    def refusal(techniques: Techniques, _device: str, dtype: str) -> SkipReason:
        unknown = SkipReason(refusals.get(format_variant_label(techniques), ""), "skip.no_size")
        return unknown or find_refusal(techniques, target.kind, dtype)

    return build_schedule(replace(request, device="cpu", device_count=0), compute_needed_ranks, refusal)


def make_planner(request: BenchRequest, target: Target, progress: Callable[[str], None] = lambda _: None) -> PlanOne:
    """A cached planner of combinations of techniques, on a bench's number of ranks; `progress` receives each."""

    def plan(techniques: Techniques) -> PlannedVariant:
        ranks, _ = choose_world_size(request, compute_needed_ranks(techniques))
        return plan_variant(schedule_run(set_world_size(request, ranks), techniques, target), target)

    return Trials(plan, format_variant_label, lambda planned: progress(planned.name)).try_candidate


def schedule_run(request: BenchRequest, techniques: Techniques, target: Target = CPU) -> ScheduledRun:
    """The run of one combination of techniques."""
    runs = plan_schedule(replace(request, variants=(techniques,)), target).runs
    return next(run for run in runs if run.spec.techniques == techniques)


def share_rehearsals() -> Rehearse:
    """A rehearsal that is done once for all GPUs on which a step makes the same tensors."""
    done: dict[Hashable, RehearsedStep | UnavailableError] = {}

    def rehearse(spec: RunSpec, gpu: CatalogEntry | None, eval_batch_size: int | None = None) -> RehearsedStep:
        key = (msgspec.json.encode(spec), None if gpu is None else get_dispatch_key(gpu), eval_batch_size)
        if key not in done:
            try:
                done[key] = rehearse_step(spec, gpu, eval_batch_size)
            except UnavailableError as error:
                done[key] = error
        rehearsed = done[key]
        if isinstance(rehearsed, UnavailableError):
            raise rehearsed
        return rehearsed

    return rehearse


def plan_variant(
    run: ScheduledRun,
    target: Target = CPU,
    rehearse: Rehearse | None = None,
    evaluation: Evaluation | None = None,
) -> PlannedVariant:
    """Plan one variant of a bench on a device, with an evaluation step if asked for; with the reason if it cannot be
    planned."""
    variant = partial(PlannedVariant, name=run.spec.variant, world_size=run.spec.launch.world_size)
    if run.skip:
        return variant(reason=run.skip)
    try:
        with hide_library_remarks():
            size = None if evaluation is None else evaluation.batch_size
            rehearsed = (rehearse or rehearse_step)(run.spec, target.entry, size)
    except UnavailableError as error:
        return variant(reason=str(error))
    memory = build_memory_account(rehearsed.allocations)
    flops = sum(op.work.flops for op in rehearsed.issued if isinstance(op, StepOp))
    counts = rehearsed.parameters, rehearsed.trainable
    planned = variant(
        unmeasured_scratch=rehearsed.untried,
        assumptions=(*rehearsed.assumptions, *_describe_unknown_settings(target)),
        flops=flops,
        closed_forms=tuple(compute_closed_forms(run.spec, target.kind, *counts, rehearsed.adam)),
        facts=rehearsed.facts,
        compute_dtype=rehearsed.compute_dtype,
        optimizers=rehearsed.optimizers,
        blocks=rehearsed.blocks,
        batches_bytes=rehearsed.batches_bytes,
        unit=rehearsed.unit,
        units_per_step=rehearsed.units,
        matrix_flops=_count_matrix_flops(rehearsed),
    )
    threads = run.spec.launch.threads or count_available_cores()
    planned = add_time(planned, rehearsed.issued, target, threads, rehearsed.bubble_share)
    if planned.step_s is not None:
        threads_of_cpu = threads if is_cpu(target.kind) else None
        step = replace(planned.step_s, threads=threads_of_cpu)
        planned = replace(planned, step_s=step)
    if memory is None:
        return planned
    planned = judge_fit(_add_memory(planned, rehearsed, memory, target), target)
    phases = tuple(plan_phases(rehearsed, planned, target, threads, evaluation))
    return replace(planned, phases=phases, deciding_phase=find_deciding_phase(phases))


def _count_matrix_flops(rehearsed: RehearsedStep) -> float:
    """FLOPs of matrix products in forward and backward: an optimizer's are none of the model's."""
    passes = (op for op in rehearsed.issued if isinstance(op, StepOp) and op.phase in ("forward", "backward"))
    return sum(op.work.flops for op in passes if op.work.matrix)


def _describe_unknown_settings(target: Target) -> Iterator[Note]:
    asked_of_cublas = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    if is_cuda(target.kind) and asked_of_cublas is not None:
        text = (
            f"CUBLAS_WORKSPACE_CONFIG={asked_of_cublas} is not modeled; the plan uses torch's default cuBLAS workspaces"
        )
        yield make_note("plan.unmodeled_settings", text, setting="CUBLAS_WORKSPACE_CONFIG")
    if target.other_settings:
        settings = ", ".join(target.other_settings)
        text = f"the environment sets {settings} for torch's allocator, which the plan does not model"
        yield make_note("plan.unmodeled_settings", text, setting=settings)


def _add_memory(
    variant: PlannedVariant, rehearsed: RehearsedStep, account: MemoryAccount, target: Target
) -> PlannedVariant:
    variant = replace(variant, memory=replace(account, has_times=False))
    if is_cpu(target.kind):
        return replace(variant, peak_allocated_bytes=_make_peak(account))
    memory = compute_device_memory(rehearsed, account, target, variant.world_size)
    return replace(
        variant,
        peak_allocated_bytes=memory.peak,
        within_allocator=memory.within,
        outside_allocator=memory.beyond,
    )


def _make_peak(account: MemoryAccount) -> PlannedPeak:
    return PlannedPeak(
        value=account.peak_bytes,
        low=account.peak_bytes,
        high=account.peak_bytes,
        phase=account.peak_phase,
        categories={share.category: share.bytes for share in account.categories},
    )
