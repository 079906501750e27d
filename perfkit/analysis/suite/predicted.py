"""A plan that lies in a suite's folder, held against what was measured of the same variants."""

from collections.abc import Mapping
from datetime import datetime

from perfkit.analysis.model.estimate import Estimate
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.analysis.model.plan import DISK, GAPS, Interval, Plan, PlannedVariant, StepTime
from perfkit.analysis.model.prediction import PredictedFigure, PredictedPart, Prediction
from perfkit.analysis.model.replay import HOST
from perfkit.analysis.model.step import OUTSIDE, REST
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.suite.plan import read_plan
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.suite.verdicts import Subject
from perfkit.analysis.trace.op_class import OpClass, work_class
from perfkit.devices.catalogue import find
from perfkit.record import Environment, value_of
from perfkit.spec import RunSpec
from perfkit.store.read import StoredSuite
from perfkit.store.summary import PLAN_FILE


def plan_beside(stored: StoredSuite, environment: Environment | None) -> tuple[Plan | None, str]:
    """The plan in a suite's folder; None where there is none, or with the reason where it is of something else."""
    if not (stored.folder / PLAN_FILE).is_file() or not stored.runs:
        return None, ""
    plan = read_plan(stored.folder)
    different = ", ".join(_differing(plan, stored.runs[0].spec, stored.suite.sources, environment))
    if different:
        return None, f"the plan in {PLAN_FILE} is of another {different}: it is not held against these runs"
    return plan, ""


def _differing(plan: Plan, spec: RunSpec, sources: Mapping[str, str], environment: Environment | None) -> list[str]:
    entry = None if environment is None else find(environment.device_name)
    conditions = {
        "workload": plan.workload == spec.workload,
        "content of the workload's files": all(
            sources.get(name, digest) == digest for name, digest in plan.sources.items()
        ),
        "dtype": plan.dtype == spec.dtype,
        "number of microbatches": plan.accumulation == spec.accumulation,
        "device": plan.device == spec.launch.device and (entry.id if entry else "") == plan.device_name,
    }
    return [name for name, same in conditions.items() if not same]


def prediction_of(plan: Plan, subject: Subject) -> Prediction | None:
    """What the plan said of a variant beside its figures and its traced step; None where it was not planned."""
    runs, figures, passes = subject.runs, subject.figures, subject.passes
    planned = next(
        (each for each in plan.variants if (each.name, each.world_size) == (runs.name, runs.world_size)), None
    )
    if planned is None:
        return None
    peak, needed, step = planned.peak_allocated_bytes, planned.needed_bytes, planned.step_s
    step_reason = "" if step is None else _other_threads(step, runs)
    if step_reason:
        step = None
    process = None if passes.account is None or not planned.beyond_allocator else passes.account.process_bytes
    step_s = figures.step_time.value if isinstance(figures.step_time, Estimate) else None
    return Prediction(
        planned_at=plan.created_at,
        beforehand=_before(plan, runs),
        reason=planned.reason,
        peak=_figure(None if peak is None else peak.bounds, value_of(figures.allocated)),
        categories=_categories(planned, passes.account),
        process=_figure(needed, process),
        step=_figure(None if step is None else step.total, step_s),
        parts=_parts(step, passes.trace),
        upper_bound=step is not None and step.upper_bound,
        step_reason=step_reason,
    )


def _other_threads(step: StepTime, runs: VariantRuns) -> str:
    """Why a step on a CPU is not held against runs with other numbers of threads; "" where they are the same."""
    environment = next((record.environment for record in runs.records if record.environment is not None), None)
    if environment is None or step.threads in (None, environment.threads):
        return ""
    return f"planned with {step.threads} threads a rank, measured with {environment.threads}"


def _before(plan: Plan, runs: VariantRuns) -> bool:
    started = [run.run.started_at for run in runs.runs if run.run.started_at]
    return not started or datetime.fromisoformat(plan.created_at) <= datetime.fromisoformat(min(started))


def _figure(predicted: Interval | None, measured: float | None) -> PredictedFigure | None:
    if predicted is None or not measured:
        return None
    return PredictedFigure(predicted=predicted, measured=measured, error=predicted.value / measured - 1)


def _categories(planned: PlannedVariant, account: MemoryAccount | None) -> tuple[PredictedPart, ...]:
    if planned.peak_allocated_bytes is None or account is None:
        return ()
    measured = {share.category: share.bytes for share in account.categories}
    return _held(planned.peak_allocated_bytes.categories, measured, account.peak_bytes)


def _parts(step: StepTime | None, trace: RankTrace | None) -> tuple[PredictedPart, ...]:
    if step is None or trace is None or not trace.steps:
        return ()
    predicted: dict[str, float] = {}
    for part, seconds in step.parts.items():
        name = HOST if part in (GAPS, DISK) else part  # a trace does not tell what no op takes by its cause
        predicted[name] = predicted.get(name, 0.0) + seconds
    return _held(predicted, _time_by_class(trace), trace.step_s)


def _held(predicted: Mapping[str, float], measured: Mapping[str, float], whole: float) -> tuple[PredictedPart, ...]:
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


def _time_by_class(trace: RankTrace) -> dict[str, float]:
    """Seconds of a step by class of op, of communication what nothing hides; what is left is the host's."""
    times: dict[str, float] = {}
    for row in trace.ops:
        if row.phase != OUTSIDE:
            name = OpClass.OTHER if row.kind == REST else work_class(row.op, row.name)
            times[name] = times.get(name, 0.0) + row.seconds
    if OpClass.COMMUNICATION in times and trace.device != "cpu":
        times[OpClass.COMMUNICATION] = trace.overlap.exposed_communication_s
    return {**times, HOST: max(0.0, trace.step_s - sum(times.values()))}
