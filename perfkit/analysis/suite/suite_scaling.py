"""Scaling efficiency: step times of the same techniques over the number of ranks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from perfkit.analysis.model.estimate import MissingEstimate
from perfkit.analysis.model.plan import Interval
from perfkit.analysis.model.scaling import Efficiency, PlannedPoint, ScalingCurve, ScalingPoint, SuiteScaling
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.time_split import COMMUNICATION
from perfkit.analysis.suite.prediction import SuitePlan
from perfkit.analysis.suite.runs import VariantRuns, get_step_times
from perfkit.analysis.suite.sessions import split_by_session
from perfkit.core.note import Note, make_note
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.sampling import compute_difference_interval
from perfkit.core.spec import BASELINE, Scaling
from perfkit.devices.accelerator import is_cpu
from perfkit.store.layout import Suite

Steps = Mapping[str, Sequence[float]]  # by variant the median step of each process


@dataclass(frozen=True)
class _MeasuredScaling:
    """The inputs of efficiencies: `sessions` has the steps of each session, because timings from different days are not
    comparable; `until_narrow` as in `perfkit.core.sampling`."""

    mode: Scaling
    sessions: Sequence[Steps]
    until_narrow: bool


def build_scaling(
    suite: Suite,
    runs: Mapping[str, VariantRuns],
    variants: Sequence[Variant],
    suite_plan: SuitePlan,
    cores: int | None,
) -> SuiteScaling | None:
    """The scaling of a suite that was asked for on several numbers of ranks; None of any other.

    `cores` are those that its processes may run on, None where that is not known.
    """
    asked = [session.request for session in suite.sessions if session.request is not None]
    if len({size for request in asked for size in request.sizes}) < 2:
        return None
    sampling = suite.sampling
    measured = _MeasuredScaling(
        asked[0].scaling,
        [
            {name: of.list_median_steps(get_step_times) for name, of in session.items()}
            for session in split_by_session(suite, runs)
        ],
        sampling is not None and sampling.precision is not None,
    )
    families: dict[str, list[Variant]] = {}
    for variant in sorted(variants, key=lambda variant: variant.world_size):
        if variant.status == RunStatus.OK:
            families.setdefault(_get_techniques(variant.name), []).append(variant)
    whole = next(iter(families.get(BASELINE, [])), None)
    curves = [_build_curve(name, members, whole, measured, runs, suite_plan) for name, members in families.items()]
    threads = {point.world_size: point.threads for curve in curves for point in curve.points}
    nodes = {run.spec.launch.world_size: run.spec.launch.nodes for of in runs.values() for run in of.runs}
    on_cpu = any(is_cpu(run.spec.launch.device) for of in runs.values() for run in of.runs)
    steps = [planned.step_s for planned in suite_plan.variants.values() if planned.step_s is not None]
    return SuiteScaling(
        mode=measured.mode,
        curves=tuple(curves),
        notes=tuple(_list_notes(threads, nodes, cores)) if on_cpu else (),
        basis=next((step.source for step in steps), ""),
        plan_notes=tuple(_explain_unplanned(curves, suite_plan)),
    )


def compute_efficiency(mode: Scaling, ranks: int, fewest: int, ratio: float) -> float:
    """Efficiency for steps `ratio` times as long as on the fewest ranks: weak T(1) / T(N), strong T(1) / (N T(N))."""
    return 1 / ratio if mode == "weak" else fewest / (ranks * ratio)


def _build_curve(
    name: str,
    members: Sequence[Variant],
    whole: Variant | None,
    measured: _MeasuredScaling,
    runs: Mapping[str, VariantRuns],
    suite_plan: SuitePlan,
) -> ScalingCurve:
    points = [
        ScalingPoint(
            variant=variant.name,
            world_size=variant.world_size,
            threads=get_threads(runs[variant.name]),
            efficiency=None if variant is members[0] else _estimate_efficiency(variant, members[0], measured),
            baseline_efficiency=None if variant is whole else _compare_to_baseline(variant, whole, measured),
            communication_share=_get_communication_share(variant),
        )
        for variant in members
    ]
    return ScalingCurve(
        name=name,
        is_baseline=name == BASELINE,
        points=tuple(points),
        planned=tuple(_build_planned_points(name, points, measured.mode, suite_plan)),
    )


def _estimate_efficiency(
    variant: Variant, reference: Variant, measured: _MeasuredScaling
) -> Efficiency | MissingEstimate:
    together = [steps for steps in measured.sessions if steps.get(variant.name) and steps.get(reference.name)]
    if not together:
        return MissingEstimate(reason=f"not timed in the same session as {reference.name}")
    steps = max(together, key=lambda session: min(len(session[variant.name]), len(session[reference.name])))
    before, after = ([math.log(step) for step in steps[of.name]] for of in (reference, variant))
    bounds = compute_difference_interval(before, after, until_narrow=measured.until_narrow)

    def at(log: float) -> float:
        return compute_efficiency(measured.mode, variant.world_size, reference.world_size, math.exp(log))

    return Efficiency(
        reference=reference.name,
        value=at(fmean(after) - fmean(before)),
        low=None if bounds is None else at(bounds[1]),
        high=None if bounds is None else at(bounds[0]),
        processes=(len(before), len(after)),
    )


def _compare_to_baseline(
    variant: Variant, whole: Variant | None, measured: _MeasuredScaling
) -> Efficiency | MissingEstimate:
    """Against the baseline on the fewest ranks, where a step works on as much."""
    if whole is None:
        return MissingEstimate(reason="no baseline was measured")
    if variant.emulation_reason:
        return MissingEstimate(reason=variant.emulation_reason)
    ours, theirs = variant.units_per_step, whole.units_per_step
    if ours is None or theirs is None:
        return MissingEstimate(reason="work per step unknown")
    ranks = 1 if measured.mode == "strong" else variant.world_size / whole.world_size
    if not math.isclose(ours, theirs * ranks):
        return MissingEstimate(reason="its batches differ from the baseline's")
    return _estimate_efficiency(variant, whole, measured)


def _get_communication_share(variant: Variant) -> float | None:
    split = variant.time_split
    return sum(part.share for part in split if part.category == COMMUNICATION) if split else None


def get_threads(runs: VariantRuns) -> int | None:
    """CPU threads of each rank of a variant."""
    return next((run.spec.launch.threads for run in runs.runs), None)


def _list_notes(threads: Mapping[int, int | None], nodes: Mapping[int, int], cores: int | None) -> Iterator[Note]:
    """Limits of scaling figures on CPUs; `cores` per machine, `nodes` by number of ranks."""
    known = {ranks: count for ranks, count in sorted(threads.items()) if count is not None}
    if cores is not None:
        over = [
            f"{ranks // nodes[ranks]:,} ranks of {_format_count(count, 'thread')} each"
            for ranks, count in known.items()
            if ranks // nodes[ranks] * count > cores
        ]
        machine = "this machine" if all(nodes[ranks] == 1 for ranks in known) else "each machine"
        if over:
            text = (
                f"{' and '.join(over)} share the {_format_count(cores, 'core')} of {machine}: the efficiency is "
                "limited by the cores, not by the program."
            )
            yield make_note("scaling.few_cores", text, cores=cores)
    if len(set(known.values())) > 1:
        counts = ", ".join(f"{_format_count(count, 'thread')} on {ranks:,}" for ranks, count in known.items())
        text = f"Ranks have different numbers of CPU threads ({counts}): the efficiency does not measure adding ranks."
        yield make_note("scaling.different_threads", text)


def _format_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _build_planned_points(
    name: str, points: Sequence[ScalingPoint], mode: Scaling, suite_plan: SuitePlan
) -> Iterator[PlannedPoint]:
    """The planned points on every number of ranks of the plan, against the fewest measured ranks."""
    threads = {point.threads for point in points}
    known = {
        variant.world_size: variant.step_s.total
        for variant in sorted(suite_plan.variants.values(), key=lambda variant: variant.world_size)
        if _get_techniques(variant.name) == name
        and variant.step_s is not None
        and variant.step_s.threads in (None, *threads)
    }
    fewest = points[0].world_size
    reference = known.get(fewest)
    for ranks, step in known.items():
        if ranks >= fewest:
            efficiency = (
                None
                if reference is None or ranks == fewest
                else _compute_efficiency_interval(mode, ranks, fewest, step, reference)
            )
            yield PlannedPoint(world_size=ranks, step_s=step, efficiency=efficiency)


def _compute_efficiency_interval(
    mode: Scaling, ranks: int, fewest: int, step: Interval, reference: Interval
) -> Interval:
    ends = ((step.value, reference.value), (step.low, reference.low), (step.high, reference.high))
    value, *others = (compute_efficiency(mode, ranks, fewest, ours / theirs) for ours, theirs in ends)
    return Interval(value=value, low=min(value, *others), high=max(value, *others))


def _explain_unplanned(curves: Sequence[ScalingCurve], suite_plan: SuitePlan) -> Iterator[Note]:
    """The reasons that curves have no planned steps."""
    for curve in curves:
        ours = [variant for variant in suite_plan.variants.values() if _get_techniques(variant.name) == curve.name]
        if ours and not curve.planned:
            reasons = dict.fromkeys(variant.step_reason or variant.reason for variant in ours)
            explanation = "; ".join(filter(None, reasons)) or "planned with a different number of threads"
            text = f"{curve.name}: no step predicted: {explanation}"
            yield make_note("scaling.not_predicted", text, curve=curve.name)


def _get_techniques(variant: str) -> str:
    return variant.partition("@")[0]
