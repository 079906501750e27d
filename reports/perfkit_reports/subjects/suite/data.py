"""A suite's figures as tables of raw rows, in SI base units (bytes, seconds, FLOPs)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from perfkit.analysis.model.estimate import Estimate, Missing
from perfkit.analysis.model.step import OpRow, TimeShare
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.devices.ceiling import Ceiling
from perfkit.record import value_of
from perfkit_reports.document.tables import Data, Schema, fields, schema_of

_STEPS: Schema = {"variant": str, "repeat": int, "step": int, "warmup": bool, "wall_s": float}
_LOSSES: Schema = {"variant": str, "step": int, "loss": float}
_VARIANTS: Schema = {
    "variant": str,
    "techniques": list[str],
    "world_size": int,
    "is_baseline": bool,
    "status": str,
    "reason": str,
    "step_s": float,
    "step_low_s": float,
    "step_high_s": float,
    "cpu_s": float,
    "processes": int,
    "data_wait_s": float,
    "data_wait_share": float,
    "throughput": float,
    "throughput_unit": str,
    "ratio": float,
    "ratio_low": float,
    "ratio_high": float,
    "verdict": str,
    "peak_allocated_bytes": float,
    "peak_reserved_bytes": float,
    "rss_bytes": float,
    "memory_ratio": float,
    "model_flops": float,
    "hardware_flops": float,
    "mfu": float,
    "hfu": float,
    "energy_per_step": float,
    "energy_per_unit": float,
    "power_w": float,
    "parity": str,
    "loss_max_relative": float,
    "engaged": bool,
    "on_pareto_front": bool,
}


def data(analysis: Analysis) -> tuple[Data, ...]:
    """Every table but those of memory; without rows where there is nothing."""
    of_ceilings = schema_of(Ceiling)
    known = analysis.ceilings.ceilings if analysis.ceilings else ()
    return (
        Data("variants", _VARIANTS, lambda: [_variant(variant, analysis) for variant in analysis.variants]),
        Data("steps", _STEPS, lambda: list(_steps(analysis))),
        Data("losses", _LOSSES, lambda: list(_losses(analysis))),
        _of_variants("ops", OpRow, analysis, lambda variant: variant.ops),
        _of_variants("roofline", OpRow, analysis, lambda variant: variant.points),
        _of_variants("time", TimeShare, analysis, lambda variant: variant.time_split),
        Data("ceilings", of_ceilings, lambda: [fields(of_ceilings, ceiling) for ceiling in known]),
    )


def _of_variants(name: str, struct: Any, analysis: Analysis, items: Callable[[Variant], Iterable[object]]) -> Data:
    """What each variant has of one struct."""
    schema = schema_of(struct, variant=str)
    return Data(
        name,
        schema,
        lambda: [
            fields(schema, item, variant=variant.name) for variant in analysis.variants for item in items(variant)
        ],
    )


def _variant(variant: Variant, analysis: Analysis) -> dict[str, Any]:
    step, difference, loop = variant.step_time, variant.difference, variant.loop
    return {
        "variant": variant.name,
        "techniques": list(variant.techniques),
        "world_size": variant.world_size,
        "is_baseline": variant.is_baseline,
        "status": variant.status.value,
        "reason": variant.reason,
        "step_s": _value(step),
        "step_low_s": step.low if isinstance(step, Estimate) else None,
        "step_high_s": step.high if isinstance(step, Estimate) else None,
        "cpu_s": _value(variant.cpu_time),
        "processes": len(step.per_process) if isinstance(step, Estimate) else 0,
        "data_wait_s": None if loop is None else loop.data_wait_s,
        "data_wait_share": None if loop is None else loop.data_wait_share,
        "throughput": _value(variant.throughput),
        "throughput_unit": variant.throughput_unit,
        "ratio": difference.ratio if difference else None,
        "ratio_low": difference.low if difference else None,
        "ratio_high": difference.high if difference else None,
        "verdict": difference.verdict if difference else None,
        "peak_allocated_bytes": value_of(variant.peak_allocated),
        "peak_reserved_bytes": value_of(variant.peak_reserved),
        "rss_bytes": value_of(variant.rss),
        "memory_ratio": variant.memory_ratio,
        "model_flops": value_of(variant.model_flops),
        "hardware_flops": value_of(variant.hardware_flops),
        "mfu": value_of(variant.mfu),
        "hfu": value_of(variant.hfu),
        "energy_per_step": value_of(variant.energy_per_step),
        "energy_per_unit": value_of(variant.energy_per_unit),
        "power_w": value_of(variant.power),
        "parity": variant.parity.verdict,
        "loss_max_relative": variant.parity.max_relative,
        "engaged": variant.engaged,
        "on_pareto_front": variant.name in analysis.pareto,
    }


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


def _value(estimate: Estimate | Missing) -> float | None:
    return estimate.value if isinstance(estimate, Estimate) else None
