"""A suite's figures as tables of raw rows, in SI base units (bytes, seconds, FLOPs)."""

from collections.abc import Callable, Iterator, Mapping
from types import GenericAlias
from typing import Any

from perfkit.analysis.model.estimate import Difference, Estimate, Missing
from perfkit.analysis.model.loop import Loop
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.devices.ceiling import Ceiling
from perfkit.record import value_of
from perfkit_reports.document.tables import Data, Schema, owned, plain
from perfkit_reports.subjects.suite.look import traces
from perfkit_reports.subjects.trace.data import of_costs

_STEPS: Schema = {"variant": str, "repeat": int, "step": int, "warmup": bool, "wall_s": float}
_LOSSES: Schema = {"variant": str, "step": int, "loss": float}
# (type, what of a variant) by column.
_VARIANTS: Mapping[str, tuple[type | GenericAlias, Callable[[Variant], Any]]] = {
    "variant": (str, lambda each: each.name),
    "techniques": (list[str], lambda each: list(each.techniques)),
    "world_size": (int, lambda each: each.world_size),
    "is_baseline": (bool, lambda each: each.is_baseline),
    "status": (str, lambda each: each.status.value),
    "reason": (str, lambda each: each.reason),
    "step_s": (float, lambda each: _of(each.step_time, "value")),
    "step_low_s": (float, lambda each: _of(each.step_time, "low")),
    "step_high_s": (float, lambda each: _of(each.step_time, "high")),
    "cpu_s": (float, lambda each: _of(each.cpu_time, "value")),
    "processes": (int, lambda each: len(_of(each.step_time, "per_process") or ())),
    "data_wait_s": (float, lambda each: _of(each.loop, "data_wait_s")),
    "data_wait_share": (float, lambda each: _of(each.loop, "data_wait_share")),
    "throughput": (float, lambda each: _of(each.throughput, "value")),
    "throughput_unit": (str, lambda each: each.throughput_unit),
    "ratio": (float, lambda each: _of(each.difference, "ratio")),
    "ratio_low": (float, lambda each: _of(each.difference, "low")),
    "ratio_high": (float, lambda each: _of(each.difference, "high")),
    "verdict": (str, lambda each: _of(each.difference, "verdict")),
    "peak_allocated_bytes": (float, lambda each: value_of(each.peak_allocated)),
    "peak_reserved_bytes": (float, lambda each: value_of(each.peak_reserved)),
    "rss_bytes": (float, lambda each: value_of(each.rss)),
    "memory_ratio": (float, lambda each: each.memory_ratio),
    "model_flops": (float, lambda each: value_of(each.model_flops)),
    "hardware_flops": (float, lambda each: value_of(each.hardware_flops)),
    "mfu": (float, lambda each: value_of(each.mfu)),
    "hfu": (float, lambda each: value_of(each.hfu)),
    "energy_per_step": (float, lambda each: value_of(each.energy_per_step)),
    "energy_per_unit": (float, lambda each: value_of(each.energy_per_unit)),
    "power_w": (float, lambda each: value_of(each.power)),
    "parity": (str, lambda each: each.parity.verdict),
    "loss_max_relative": (float, lambda each: each.parity.max_relative),
    "engaged": (bool, lambda each: each.engaged),
}
_FRONT = "on_pareto_front"


def data(analysis: Analysis) -> tuple[Data, ...]:
    """Every table but those of memory; without rows where there is nothing."""
    schema = {**{name: kind for name, (kind, _) in _VARIANTS.items()}, _FRONT: bool}
    variants = [([variant.name], variant) for variant in analysis.variants]
    return (
        Data("variants", schema, lambda: [_variant(variant, analysis) for variant in analysis.variants]),
        Data("steps", _STEPS, lambda: list(_steps(analysis))),
        Data("losses", _LOSSES, lambda: list(_losses(analysis))),
        *of_costs(traces(analysis), "variant"),
        owned("time", TimeShare, {"variant": str}, variants, lambda variant: variant.time_split),
        plain("ceilings", Ceiling, analysis.ceilings.ceilings if analysis.ceilings else ()),
    )


def _variant(variant: Variant, analysis: Analysis) -> dict[str, Any]:
    row = {name: pick(variant) for name, (_, pick) in _VARIANTS.items()}
    return {**row, _FRONT: variant.name in analysis.pareto}


def _of(part: Estimate | Missing | Loop | Difference | None, name: str) -> Any:
    """A field of what was measured of a variant; None where it was not."""
    return None if part is None or isinstance(part, Missing) else getattr(part, name)


def _steps(analysis: Analysis) -> Iterator[Mapping[str, Any]]:
    for variant in analysis.variants:
        for warmup, runs in ((True, variant.warmup_samples), (False, variant.step_samples)):
            for repeat, run in enumerate(runs):
                for step, seconds in enumerate(run):
                    yield {
                        "variant": variant.name, "repeat": repeat, "step": step, "warmup": warmup, "wall_s": seconds,
                    }  # fmt: skip


def _losses(analysis: Analysis) -> Iterator[Mapping[str, Any]]:
    for variant in analysis.variants:
        for step, loss in enumerate(variant.losses):
            yield {"variant": variant.name, "step": step, "loss": loss}
