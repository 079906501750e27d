"""Compares a plan in a suite's folder with the measurements of the same variants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.plan import DISK, GAPS, Interval, Plan, PlannedVariant, StepTime
from perfkit.analysis.model.prediction import PredictedFigure, PredictedPart, Prediction
from perfkit.analysis.model.replay import HOST
from perfkit.analysis.model.step import OUTSIDE, REST
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.suite.loop_plan import match_plan
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.suite.variant_verdicts import VariantData
from perfkit.analysis.trace.work.kernel_class import classify_work
from perfkit.core.files import read_json
from perfkit.core.note import Note, make_note
from perfkit.core.record.environment import Environment
from perfkit.core.record.quantity import get_value
from perfkit.core.spec import RunSpec
from perfkit.cost.calls.op_call import OpClass
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.catalog.catalog import find_entry_with_memory
from perfkit.store.layout import Suite
from perfkit.store.suite_reader import StoredSuite
from perfkit.store.summary import PLAN_FILE


def read_plan(folder: Path) -> Plan:
    """Read the plan that `perfkit plan` wrote to a folder; a `RunFormatError` where it is damaged or too new."""
    return read_json(folder / PLAN_FILE, Plan, remedy="plan again")


@dataclass(frozen=True)
class SuitePlan:
    """The plan in a suite's folder, by variant name; empty without one.

    `refused` is the reason that it is not compared with the runs. `basis` names the properties that identify an
    attached loop with it.
    """

    created_at: str = ""
    variants: Mapping[str, PlannedVariant] = field(default_factory=dict)
    basis: str = ""
    refused: Note | None = None


def read_suite_plan(stored: StoredSuite, environment: Environment | None) -> SuitePlan:
    """The plan in a suite's folder."""
    if not (stored.folder / PLAN_FILE).is_file() or not stored.runs:
        return SuitePlan()
    plan, first = read_plan(stored.folder), stored.runs[0]
    loop = next((rank.record for rank in first.ranks if rank.record.attached_loop is not None), None)
    if loop is not None:
        planned, explanation = match_plan(plan, first.variant, loop, _identify_device(first.spec, environment))
        if planned is None:
            text = f"the plan in {PLAN_FILE} is not compared with this loop: {explanation}"
            return SuitePlan(refused=make_note("plan.other_loop", text))
        return SuitePlan(plan.created_at, {first.variant: planned}, basis=explanation)
    different = ", ".join(_list_differences(plan, first.spec, stored.suite, environment))
    if different:
        text = f"the plan in {PLAN_FILE} has a different {different}: it is not compared with these runs"
        return SuitePlan(refused=make_note("plan.other_request", text))
    return SuitePlan(plan.created_at, {variant.name: variant for variant in plan.variants})


def _list_differences(plan: Plan, spec: RunSpec, suite: Suite, environment: Environment | None) -> list[str]:
    asked, sources = (
        next((session.request for session in suite.sessions if session.request is not None), None),
        suite.sources,
    )
    divided = asked is not None and asked.scaling == "strong"  # then a run has a part of the batch that was asked for
    conditions = {
        "workload": plan.workload == (asked.workload if asked is not None and divided else spec.workload),
        "scaling": plan.scaling == ("strong" if divided else "weak"),
        "contents of the workload's files": all(
            sources.get(name, digest) == digest for name, digest in plan.sources.items()
        ),
        "dtype": plan.dtype == spec.dtype,
        "number of microbatches": plan.accumulation == spec.accumulation,
        "device": (plan.device_name or plan.device) == _identify_device(spec, environment),
    }
    return [name for name, same in conditions.items() if not same]


def _identify_device(spec: RunSpec, environment: Environment | None) -> str:
    """The device of a run as named in plans: `cpu`, or a GPU's id in the catalog."""
    if environment is None:
        return spec.launch.device
    entry = find_entry_with_memory(environment.device_name, environment.device_memory_bytes)
    return spec.launch.device if entry is None else entry.id


def build_prediction(suite_plan: SuitePlan, subject: VariantData) -> Prediction | None:
    """Compare the plan of a variant with its figures and its traced step; None where it was not planned."""
    runs, figures, passes = subject.runs, subject.figures, subject.passes
    planned = suite_plan.variants.get(runs.name)
    if planned is None or planned.world_size != runs.world_size:
        return None
    peak, needed, step = planned.peak_allocated_bytes, planned.needed_bytes, planned.step_s
    step_reason = "" if step is None else _explain_other_threads(step, runs)
    if step_reason:
        step = None
    process = None if passes.account is None or not planned.outside_allocator else passes.account.process_bytes
    step_s = figures.step_time.value if isinstance(figures.step_time, MedianEstimate) else None
    return Prediction(
        planned_at=suite_plan.created_at,
        planned_before_run=_is_planned_before(suite_plan.created_at, runs),
        basis=suite_plan.basis,
        reason=planned.reason,
        peak=_compare_figure(None if peak is None else peak.bounds, get_value(figures.allocated)),
        categories=_compare_categories(planned, passes.account),
        process=_compare_figure(needed, process),
        step=_compare_figure(None if step is None else step.total, step_s),
        parts=_compare_parts(step, passes.trace),
        planned_eagerly=step is not None and step.planned_eagerly,
        step_reason=step_reason,
    )


def _explain_other_threads(step: StepTime, runs: VariantRuns) -> str:
    """The reason that a planned CPU step is not compared with runs on different thread counts; "" where they match."""
    environment = next((record.environment for record in runs.records if record.environment is not None), None)
    if environment is None or step.threads in (None, environment.threads):
        return ""
    return f"planned with {step.threads} threads per rank, measured with {environment.threads}"


def _is_planned_before(created_at: str, runs: VariantRuns) -> bool:
    started = [run.run.started_at for run in runs.runs if run.run.started_at]
    return not started or datetime.fromisoformat(created_at) <= datetime.fromisoformat(min(started))


def _compare_figure(predicted: Interval | None, measured: float | None) -> PredictedFigure | None:
    if predicted is None or not measured:
        return None
    return PredictedFigure(predicted=predicted, measured=measured, error=predicted.value / measured - 1)


def _compare_categories(planned: PlannedVariant, account: MemoryAccount | None) -> tuple[PredictedPart, ...]:
    if planned.peak_allocated_bytes is None or account is None:
        return ()
    measured = {share.category: share.bytes for share in account.categories}
    return _pair_parts(planned.peak_allocated_bytes.categories, measured, account.peak_bytes)


def _compare_parts(step: StepTime | None, trace: RankTrace | None) -> tuple[PredictedPart, ...]:
    if step is None or trace is None or not trace.steps:
        return ()
    predicted: dict[str, float] = {}
    for part, seconds in step.parts.items():
        name = HOST if part in (GAPS, DISK) else part  # a trace does not tell what no op takes by its cause
        predicted[name] = predicted.get(name, 0.0) + seconds
    return _pair_parts(predicted, _sum_time_by_class(trace), trace.step_s)


def _pair_parts(
    predicted: Mapping[str, float], measured: Mapping[str, float], whole: float
) -> tuple[PredictedPart, ...]:
    """The parts of either, the largest first."""
    parts = [
        PredictedPart(
            name=name,
            predicted=predicted.get(name, 0.0),
            measured=measured.get(name, 0.0),
            error=(predicted.get(name, 0.0) - measured.get(name, 0.0)) / whole,
        )
        for name in {**predicted, **measured}
    ]
    return tuple(sorted(parts, key=lambda part: -max(part.predicted, part.measured)))


def _sum_time_by_class(trace: RankTrace) -> dict[str, float]:
    """Seconds of a step by op class; for communication the exposed part, and the rest for the CPU."""
    times: dict[str, float] = {}
    for row in trace.ops:
        if row.phase != OUTSIDE:
            name = OpClass.OTHER if row.kind == REST else classify_work(row.op, row.name)
            times[name] = times.get(name, 0.0) + row.seconds
    if OpClass.COMMUNICATION in times and not is_cpu(trace.device):
        times[OpClass.COMMUNICATION] = trace.overlap.exposed_communication_s
    return {**times, HOST: max(0.0, trace.step_s - sum(times.values()))}
