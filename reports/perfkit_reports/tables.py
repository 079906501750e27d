"""The figures as Parquet tables, in SI base units (bytes, seconds, FLOPs), null where something is not known."""

from collections.abc import Callable, Iterable

import pyarrow as pa

from perfkit.analysis.model.estimate import Estimate, Missing
from perfkit.analysis.model.step import OpRow, TimeShare
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.devices.ceiling import Ceiling
from perfkit.record import value_of
from perfkit_reports import arrow, memory_tables
from perfkit_reports.arrow import FLAG, REAL, TEXT, WHOLE, Row, Schema, fields, schema_of
from perfkit_reports.holders import of_variants

SCHEMAS: dict[str, Schema] = {
    "variants": {
        "variant": TEXT,
        "techniques": pa.list_(TEXT),
        "world_size": WHOLE,
        "is_baseline": FLAG,
        "status": TEXT,
        "reason": TEXT,
        "step_s": REAL,
        "step_low_s": REAL,
        "step_high_s": REAL,
        "cpu_s": REAL,
        "processes": WHOLE,
        "data_wait_s": REAL,
        "data_wait_share": REAL,
        "throughput": REAL,
        "throughput_unit": TEXT,
        "ratio": REAL,
        "ratio_low": REAL,
        "ratio_high": REAL,
        "verdict": TEXT,
        "peak_allocated_bytes": REAL,
        "peak_reserved_bytes": REAL,
        "rss_bytes": REAL,
        "memory_ratio": REAL,
        "model_flops": REAL,
        "hardware_flops": REAL,
        "mfu": REAL,
        "hfu": REAL,
        "energy_per_step": REAL,
        "energy_per_unit": REAL,
        "power_w": REAL,
        "parity": TEXT,
        "loss_max_relative": REAL,
        "engaged": FLAG,
        "on_pareto_front": FLAG,
    },
    "steps": {"variant": TEXT, "repeat": WHOLE, "step": WHOLE, "warmup": FLAG, "wall_s": REAL},
    "losses": {"variant": TEXT, "step": WHOLE, "loss": REAL},
    "ops": schema_of(OpRow, variant=TEXT),
    "roofline": schema_of(OpRow, variant=TEXT),
    "time": schema_of(TimeShare, variant=TEXT),
    **memory_tables.schemas("variant"),
    "ceilings": schema_of(Ceiling),
}


def tables(analysis: Analysis) -> dict[str, pa.Table]:
    """Every table of `SCHEMAS`, with no rows where there is nothing."""
    ceilings = analysis.ceilings.ceilings if analysis.ceilings else ()
    rows: dict[str, list[Row]] = {
        "variants": _variants(analysis),
        "steps": _steps(analysis),
        "losses": [
            {"variant": variant.name, "step": step, "loss": loss}
            for variant in analysis.variants
            for step, loss in enumerate(variant.losses)
        ],
        "ops": _of_variants("ops", analysis, lambda variant: variant.ops),
        "roofline": _of_variants("roofline", analysis, lambda variant: variant.points),
        "time": _of_variants("time", analysis, lambda variant: variant.time_split),
        **memory_tables.rows(of_variants(analysis), "variant"),
        "ceilings": [fields(SCHEMAS["ceilings"], ceiling) for ceiling in ceilings],
    }
    return arrow.tables(SCHEMAS, rows)


def _of_variants(table: str, analysis: Analysis, items: Callable[[Variant], Iterable[object]]) -> list[Row]:
    return [
        fields(SCHEMAS[table], item, variant=variant.name) for variant in analysis.variants for item in items(variant)
    ]


def _variants(analysis: Analysis) -> list[Row]:
    rows = []
    for variant in analysis.variants:
        step, difference = variant.step_time, variant.difference
        rows.append(
            {
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
                "data_wait_s": None if variant.loop is None else variant.loop.data_wait_s,
                "data_wait_share": None if variant.loop is None else variant.loop.data_wait_share,
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
        )
    return rows


def _steps(analysis: Analysis) -> list[Row]:
    return [
        {"variant": variant.name, "repeat": repeat, "step": step, "warmup": warmup, "wall_s": seconds}
        for variant in analysis.variants
        for warmup, runs in ((True, variant.warmup_samples), (False, variant.step_samples))
        for repeat, run in enumerate(runs)
        for step, seconds in enumerate(run)
    ]


def _value(estimate: Estimate | Missing) -> float | None:
    return estimate.value if isinstance(estimate, Estimate) else None
