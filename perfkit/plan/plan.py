"""Plans what each variant of a bench would need, before anything is trained."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.analysis.model.plan import PlannedPeak, PlannedVariant
from perfkit.devices.machine import count_available_cores
from perfkit.errors import UnavailableError
from perfkit.measure.bench import compute_needed_ranks, find_refusal
from perfkit.measure.schedule import (
    BenchSchedule,
    ScheduledRun,
    SkipReason,
    Techniques,
    build_schedule,
    choose_world_size,
)
from perfkit.plan.closed_forms import compute_closed_forms
from perfkit.plan.device_memory import compute_device_memory
from perfkit.plan.quiet_libraries import hide_library_remarks
from perfkit.plan.rehearsal import RehearsedStep, rehearse_step
from perfkit.plan.step_ops import StepOp
from perfkit.plan.target import CPU, Target
from perfkit.plan.technique_planning import is_compiled
from perfkit.plan.variant_time import add_time
from perfkit.plan.verdict import judge_fit
from perfkit.spec import format_variant_label
from perfkit.store.request import BenchRequest

PlanOne = Callable[[Techniques], PlannedVariant]  # the plan of one combination of techniques

_NO_REFUSALS: Mapping[str, str] = {}


def plan_variants(
    request: BenchRequest, target: Target = CPU, refusals: Mapping[str, str] = _NO_REFUSALS
) -> Iterator[PlannedVariant]:
    """The variants of a bench on a device one after the other, baselines first, as soon as each is known.

    `refusals` says of variants why they cannot be planned.
    """
    return (plan_variant(run, target) for run in plan_schedule(request, target, refusals).runs)


def plan_schedule(
    request: BenchRequest, target: Target = CPU, refusals: Mapping[str, str] = _NO_REFUSALS
) -> BenchSchedule:
    """The runs that are planned. What a GPU lacks is found out when its step is gone through."""

    def refusal(techniques: Techniques, _device: str, dtype: str) -> SkipReason:
        unknown = SkipReason(refusals.get(format_variant_label(techniques), ""), "skip.no_size")
        return unknown or find_refusal(techniques, target.kind, dtype)

    return build_schedule(replace(request, device="cpu", device_count=0), compute_needed_ranks, refusal)


def make_planner(request: BenchRequest, target: Target, progress: Callable[[str], None] = lambda _: None) -> PlanOne:
    """What plans combinations of techniques, each once, on as many ranks as a bench has; `progress` is told of each."""
    known: dict[str, PlannedVariant] = {}

    def planned_once(techniques: Techniques) -> PlannedVariant:
        name = format_variant_label(techniques)
        if name in known:
            return known[name]
        ranks, _ = choose_world_size(request, compute_needed_ranks(techniques))
        known[name] = plan_variant(
            schedule_run(replace(request, world_size=ranks, world_sizes=()), techniques, target), target
        )
        progress(known[name].name)
        return known[name]

    return planned_once


def schedule_run(request: BenchRequest, techniques: Techniques, target: Target = CPU) -> ScheduledRun:
    """The run of one combination of techniques."""
    runs = plan_schedule(replace(request, variants=(techniques,)), target).runs
    return next(run for run in runs if run.spec.techniques == techniques)


def plan_variant(run: ScheduledRun, target: Target = CPU) -> PlannedVariant:
    """One variant of a bench on a device; with the reason where it cannot be planned."""
    variant = partial(PlannedVariant, name=run.spec.variant, world_size=run.spec.launch.world_size)
    if run.skip:
        return variant(reason=run.skip)
    try:
        with hide_library_remarks():
            rehearsed = rehearse_step(run.spec, target.entry)
    except UnavailableError as error:
        return variant(reason=str(error))
    held = build_memory_account(rehearsed.allocations)
    flops = sum(op.work.flops for op in rehearsed.issued if isinstance(op, StepOp))
    counts = rehearsed.parameters, rehearsed.trainable
    told = variant(
        unmeasured_scratch=rehearsed.untried,
        assumptions=(*rehearsed.assumptions, *_describe_unknown_settings(target)),
        flops=flops,
        closed_forms=tuple(compute_closed_forms(run.spec, target.kind, *counts, rehearsed.adam)),
        facts=rehearsed.facts,
        compute_dtype=rehearsed.compute_dtype,
        optimizers=rehearsed.optimizers,
        blocks=rehearsed.blocks,
        batches_bytes=rehearsed.batches_bytes,
    )
    threads = run.spec.launch.threads or count_available_cores()
    told = add_time(told, rehearsed.issued, target, threads, rehearsed.bubble_share)
    if told.step_s is not None:
        threads_of_cpu = threads if target.kind == "cpu" else None
        step = replace(told.step_s, planned_eagerly=is_compiled(run.spec.techniques), threads=threads_of_cpu)
        told = replace(told, step_s=step)
    return told if held is None else judge_fit(_add_memory(told, rehearsed, held, target), target)


def _describe_unknown_settings(target: Target) -> Iterator[str]:
    asked_of_cublas = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    if target.kind == "cuda" and asked_of_cublas is not None:
        yield (
            f"CUBLAS_WORKSPACE_CONFIG={asked_of_cublas} is not modeled; the plan uses torch's default cuBLAS workspaces"
        )
    if target.other_settings:
        asked = ", ".join(target.other_settings)
        yield f"the environment sets {asked} for torch's allocator, which the plan does not model"


def _add_memory(
    variant: PlannedVariant, rehearsed: RehearsedStep, held: MemoryAccount, target: Target
) -> PlannedVariant:
    variant = replace(variant, memory=replace(held, has_times=False))
    if target.kind == "cpu":
        return replace(variant, peak_allocated_bytes=_make_peak(held))
    memory = compute_device_memory(rehearsed, held, target, variant.world_size)
    return replace(
        variant,
        peak_allocated_bytes=memory.peak,
        within_allocator=memory.within,
        outside_allocator=memory.beyond,
    )


def _make_peak(held: MemoryAccount) -> PlannedPeak:
    return PlannedPeak(
        value=held.peak_bytes,
        low=held.peak_bytes,
        high=held.peak_bytes,
        phase=held.peak_phase,
        categories={share.category: share.bytes for share in held.categories},
    )
