"""Raw rows of a suite in SI base units (bytes, seconds, FLOPs)."""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from types import GenericAlias
from typing import Any

from perfkit.analysis.model.estimate import Difference, MedianEstimate, MissingEstimate
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.plan import Interval
from perfkit.analysis.model.prediction import PredictedFigure, PredictedPart, Prediction
from perfkit.analysis.model.scaling import Efficiency, ScalingCurve
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core.record.quantity import get_value, get_whole
from perfkit.devices.ceilings.ceiling import Ceiling
from perfkit_reports.document.tables import RawTable, Schema, build_owned_data, build_plain_data
from perfkit_reports.subjects.suite.chart_styles import list_traces
from perfkit_reports.subjects.trace.trace_data import build_cost_tables

_STEPS: Schema = {"variant": str, "repeat": int, "step": int, "warmup": bool, "wall_s": float}
_LOSSES: Schema = {"variant": str, "step": int, "end_s": float, "loss": float}
_EXPERTS: Schema = {
    "variant": str,
    "layer": str,
    "expert": int,
    "tokens": int,
    "routed_tokens": int,
    "accepted_tokens": int,
}
# (type, getter) by column.
_VARIANTS: Mapping[str, tuple[type | GenericAlias, Callable[[Variant], Any]]] = {
    "variant": (str, lambda variant: variant.name),
    "techniques": (list[str], lambda variant: list(variant.techniques)),
    "world_size": (int, lambda variant: variant.world_size),
    "is_baseline": (bool, lambda variant: variant.is_baseline),
    "status": (str, lambda variant: variant.status.value),
    "reason": (str, lambda variant: variant.reason),
    "step_s": (float, lambda variant: _get_field(variant.step_time, "value")),
    "step_low_s": (float, lambda variant: _get_field(variant.step_time, "low")),
    "step_high_s": (float, lambda variant: _get_field(variant.step_time, "high")),
    "cpu_s": (float, lambda variant: _get_field(variant.cpu_time, "value")),
    "processes": (int, lambda variant: len(_get_field(variant.step_time, "per_process") or ())),
    "data_wait_s": (float, lambda variant: _get_field(variant.loop, "data_wait_s")),
    "data_wait_share": (
        float,
        lambda variant: variant.data_wait_share if variant.loop is None else variant.loop.data_wait_share,
    ),
    "throughput": (float, lambda variant: _get_field(variant.throughput, "value")),
    "throughput_unit": (str, lambda variant: variant.throughput_unit),
    "cost": (float, lambda variant: _get_field(variant.cost, "value")),
    "cost_low": (float, lambda variant: _get_field(variant.cost, "low")),
    "cost_high": (float, lambda variant: _get_field(variant.cost, "high")),
    "cost_unit": (str, lambda variant: _get_field(variant.cost, "unit")),
    "units_per_step": (int, lambda variant: variant.units_per_step),
    "comparison_unit": (str, lambda variant: variant.comparison_unit),
    "ratio": (float, lambda variant: _get_field(variant.difference, "ratio")),
    "ratio_low": (float, lambda variant: _get_field(variant.difference, "low")),
    "ratio_high": (float, lambda variant: _get_field(variant.difference, "high")),
    "verdict": (str, lambda variant: _get_field(variant.difference, "verdict")),
    "peak_allocated_bytes": (float, lambda variant: get_value(variant.peak_allocated)),
    "peak_reserved_bytes": (float, lambda variant: get_value(variant.peak_reserved)),
    "rss_bytes": (float, lambda variant: get_value(variant.rss)),
    "memory_ratio": (float, lambda variant: variant.memory_ratio),
    "model_flops": (float, lambda variant: get_value(variant.model_flops)),
    "hardware_flops": (float, lambda variant: get_value(variant.hardware_flops)),
    "mfu": (float, lambda variant: get_value(variant.mfu)),
    "hfu": (float, lambda variant: get_value(variant.hfu)),
    "mfu_of": (str, lambda variant: get_whole(variant.mfu)),
    "energy_per_step": (float, lambda variant: get_value(variant.energy_per_step)),
    "energy_per_unit": (float, lambda variant: get_value(variant.energy_per_unit)),
    "power_w": (float, lambda variant: get_value(variant.power)),
    "sm_clock_hz": (float, lambda variant: None if variant.clocks is None else variant.clocks.sm_hz),
    "parity": (str, lambda variant: variant.parity.verdict),
    "loss_max_relative": (float, lambda variant: variant.parity.max_relative),
    "emulation_reason": (str, lambda variant: variant.emulation_reason),
    "active": (bool, lambda variant: variant.active),
    "active_in_part": (bool, lambda variant: variant.active_in_part),
}
_FRONT = "on_pareto_front"


def build_data(analysis: Analysis) -> tuple[RawTable, ...]:
    """All tables except those of memory; tables without data have no rows."""
    schema = {**{name: kind for name, (kind, _) in _VARIANTS.items()}, _FRONT: bool}
    variants = [([variant.name], variant) for variant in analysis.variants]
    return (
        RawTable("variants", schema, lambda: [_build_variant_row(variant, analysis) for variant in analysis.variants]),
        RawTable("steps", _STEPS, lambda: list(_list_steps(analysis))),
        RawTable("losses", _LOSSES, lambda: list(_list_losses(analysis))),
        RawTable("experts", _EXPERTS, lambda: list(_list_experts(analysis))),
        *build_cost_tables(list_traces(analysis), "variant"),
        build_owned_data("time", TimeShare, {"variant": str}, variants, lambda variant: variant.time_split),
        *_build_prediction_tables(analysis),
        *_build_scaling_tables(analysis),
        build_plain_data("ceilings", Ceiling, analysis.ceilings.ceilings if analysis.ceilings else ()),
    )


def _list_experts(analysis: Analysis) -> Iterator[dict[str, Any]]:
    for variant in analysis.variants:
        for load in variant.expert_loads:
            for expert, (routed, accepted) in enumerate(zip(load.routed_tokens, load.accepted_tokens, strict=True)):
                names = {"variant": variant.name, "layer": load.layer, "expert": expert, "tokens": load.tokens}
                yield {**names, "routed_tokens": routed, "accepted_tokens": accepted}


_PREDICTIONS: Schema = {
    "variant": str, "figure": str, "unit": str, "predicted": float, "low": float, "high": float, "measured": float,
    "error": float,
}  # fmt: skip


def _build_prediction_tables(analysis: Analysis) -> Iterator[RawTable]:
    """Figures and their parts, predicted and measured; none without a plan."""
    rows = [(variant.name, variant.prediction) for variant in analysis.variants if variant.prediction is not None]
    if not rows:
        return
    yield RawTable(
        "predictions",
        _PREDICTIONS,
        lambda: [row for name, prediction in rows for row in _list_figures(name, prediction)],
    )
    for table, pick in (
        ("predicted_memory", attrgetter("categories")),
        ("predicted_time", attrgetter("parts")),
    ):
        yield build_owned_data(
            table, PredictedPart, {"variant": str}, [([name], prediction) for name, prediction in rows], pick
        )


_SCALING: Schema = {
    "techniques": str, "world_size": int, "variant": str, "threads": int, "reference": str, "efficiency": float,
    "efficiency_low": float, "efficiency_high": float, "baseline_efficiency": float, "communication_share": float,
    "planned_step_s": float, "planned_step_low_s": float, "planned_step_high_s": float, "planned_efficiency": float,
    "planned_efficiency_low": float, "planned_efficiency_high": float,
}  # fmt: skip


def _build_scaling_tables(analysis: Analysis) -> Iterator[RawTable]:
    """One row per measured or planned number of ranks; none for a single number."""
    scaling = analysis.scaling
    if scaling is not None:
        yield RawTable(
            "scaling", _SCALING, lambda: [row for curve in scaling.curves for row in _list_curve_rows(curve)]
        )


def _list_curve_rows(curve: ScalingCurve) -> Iterator[Mapping[str, Any]]:
    points = {point.world_size: point for point in curve.points}
    planned = {point.world_size: point for point in curve.planned}
    for ranks in sorted({*points, *planned}):
        point, plan = points.get(ranks), planned.get(ranks)
        own = None if point is None else point.efficiency
        yield {
            "techniques": curve.name,
            "world_size": ranks,
            "variant": None if point is None else point.variant,
            "threads": None if point is None else point.threads,
            "reference": _get_field(own, "reference"),
            "efficiency": _get_field(own, "value"),
            "efficiency_low": _get_field(own, "low"),
            "efficiency_high": _get_field(own, "high"),
            "baseline_efficiency": None if point is None else _get_field(point.baseline_efficiency, "value"),
            "communication_share": None if point is None else point.communication_share,
            **_build_interval_columns("planned_step", "_s", None if plan is None else plan.step_s),
            **_build_interval_columns("planned_efficiency", "", None if plan is None else plan.efficiency),
        }


def _build_interval_columns(name: str, unit: str, interval: Interval | None) -> dict[str, float | None]:
    ends = {f"{name}{unit}": "value", f"{name}_low{unit}": "low", f"{name}_high{unit}": "high"}
    return {column: None if interval is None else getattr(interval, end) for column, end in ends.items()}


def _list_figures(name: str, prediction: Prediction) -> Iterator[Mapping[str, Any]]:
    for what, unit in (("peak", "bytes"), ("process", "bytes"), ("step", "s")):
        figure: PredictedFigure | None = getattr(prediction, what)
        if figure is not None:
            bounds = figure.predicted
            bounds_fields = {"predicted": bounds.value, "low": bounds.low, "high": bounds.high}
            yield {
                "variant": name, "figure": what, "unit": unit, **bounds_fields, "measured": figure.measured,
                "error": figure.error,
            }  # fmt: skip


def _build_variant_row(variant: Variant, analysis: Analysis) -> dict[str, Any]:
    row = {name: pick(variant) for name, (_, pick) in _VARIANTS.items()}
    return {**row, _FRONT: variant.name in analysis.pareto}


def _get_field(
    part: MedianEstimate | MissingEstimate | LoopAnalysis | Difference | Efficiency | None, name: str
) -> Any:
    """A measured field of a variant; None where it was not measured."""
    return None if part is None or isinstance(part, MissingEstimate) else getattr(part, name)


def _list_steps(analysis: Analysis) -> Iterator[Mapping[str, Any]]:
    for variant in analysis.variants:
        for warmup, runs in ((True, variant.warmup_samples), (False, variant.step_samples)):
            for repeat, run in enumerate(runs):
                for step, seconds in enumerate(run):
                    yield {
                        "variant": variant.name, "repeat": repeat, "step": step, "warmup": warmup, "wall_s": seconds,
                    }  # fmt: skip


def _list_losses(analysis: Analysis) -> Iterator[Mapping[str, Any]]:
    """Loss rows; `end_s` is the end of a step if every step takes the variant's step time."""
    for variant in analysis.variants:
        each_s = _get_field(variant.step_time, "value")
        for step, loss in enumerate(variant.losses):
            end_s = None if each_s is None else (step + 1) * each_s
            yield {"variant": variant.name, "step": step, "end_s": end_s, "loss": loss}
