"""The figures as Parquet tables, in SI base units (bytes, seconds, FLOPs), null where something is not known."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perfkit.analysis.result import Analysis, Estimate, Missing
from perfkit.record import value_of

_TEXT, _REAL, _WHOLE, _FLAG = pa.string(), pa.float64(), pa.int64(), pa.bool_()
Row = dict[str, Any]

SCHEMAS = {
    "variants": {
        "variant": _TEXT,
        "techniques": pa.list_(_TEXT),
        "world_size": _WHOLE,
        "is_baseline": _FLAG,
        "status": _TEXT,
        "reason": _TEXT,
        "step_s": _REAL,
        "step_low_s": _REAL,
        "step_high_s": _REAL,
        "cpu_s": _REAL,
        "processes": _WHOLE,
        "throughput": _REAL,
        "throughput_unit": _TEXT,
        "ratio": _REAL,
        "ratio_low": _REAL,
        "ratio_high": _REAL,
        "verdict": _TEXT,
        "peak_allocated_bytes": _REAL,
        "peak_reserved_bytes": _REAL,
        "rss_bytes": _REAL,
        "memory_ratio": _REAL,
        "model_flops": _REAL,
        "hardware_flops": _REAL,
        "mfu": _REAL,
        "hfu": _REAL,
        "energy_per_step": _REAL,
        "parity": _TEXT,
        "loss_max_relative": _REAL,
        "engaged": _FLAG,
        "on_pareto_front": _FLAG,
    },
    "steps": {"variant": _TEXT, "repeat": _WHOLE, "step": _WHOLE, "warmup": _FLAG, "wall_s": _REAL},
    "losses": {"variant": _TEXT, "step": _WHOLE, "loss": _REAL},
    "ops": {
        "variant": _TEXT,
        "name": _TEXT,
        "phase": _TEXT,
        "module": _TEXT,
        "shapes": _TEXT,
        "calls": _REAL,
        "seconds": _REAL,
        "share": _REAL,
        "flops": _REAL,
        "bytes": _REAL,
        "intensity": _REAL,
        "bound": _TEXT,
        "attainable_s": _REAL,
        "efficiency": _REAL,
        "cost_source": _TEXT,
    },
    "roofline": {
        "variant": _TEXT,
        "kind": _TEXT,
        "name": _TEXT,
        "shapes": _TEXT,
        "calls": _REAL,
        "seconds": _REAL,
        "share": _REAL,
        "flops": _REAL,
        "bytes": _REAL,
        "intensity": _REAL,
        "achieved": _REAL,
        "unit": _TEXT,
        "dtype": _TEXT,
        "bound": _TEXT,
        "level": _TEXT,
        "attainable_s": _REAL,
        "above_roof": _FLAG,
    },
    "time": {"variant": _TEXT, "category": _TEXT, "seconds": _REAL, "share": _REAL},
    "memory": {"variant": _TEXT, "category": _TEXT, "bytes": _WHOLE, "in_peak": _FLAG},
    "memory_timeline": {"variant": _TEXT, "time_s": _REAL, "category": _TEXT, "bytes": _WHOLE},
    "ceilings": {
        "level": _TEXT,
        "dtype": _TEXT,
        "value": _REAL,
        "unit": _TEXT,
        "kind": _TEXT,
        "threads": _WHOLE,
        "spread": _REAL,
        "confidence": _TEXT,
        "source": _TEXT,
    },
}


def tables(analysis: Analysis) -> dict[str, pa.Table]:
    """Every table of `SCHEMAS`, with no rows where there is nothing."""
    rows: dict[str, list[Row]] = {
        "variants": _variants(analysis),
        "steps": _steps(analysis),
        "losses": [
            {"variant": variant.name, "step": step, "loss": loss}
            for variant in analysis.variants
            for step, loss in enumerate(variant.losses)
        ],
        "ops": [_fields("ops", row, variant.name) for variant in analysis.variants for row in variant.ops],
        "roofline": [
            _fields("roofline", point, variant.name) for variant in analysis.variants for point in variant.points
        ],
        "time": [_fields("time", share, variant.name) for variant in analysis.variants for share in variant.time_split],
        "memory": _memory(analysis),
        "memory_timeline": _timeline(analysis),
        "ceilings": [
            _fields("ceilings", ceiling) for ceiling in (analysis.ceilings.ceilings if analysis.ceilings else ())
        ],
    }
    return {
        name: pa.Table.from_pylist(rows[name], schema=pa.schema(list(schema.items())))
        for name, schema in SCHEMAS.items()
    }


def parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


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


def _memory(analysis: Analysis) -> list[Row]:
    """Categories of the peak (`in_peak`), which sum to it, and what lies beyond the allocator."""
    return [
        {"variant": variant.name, "category": part.category, "bytes": part.bytes, "in_peak": in_peak}
        for variant in analysis.variants
        if variant.memory is not None
        for in_peak, parts in ((True, variant.memory.categories), (False, variant.memory.beyond))
        for part in parts
    ]


def _timeline(analysis: Analysis) -> list[Row]:
    return [
        {"variant": variant.name, "time_s": time, "category": category, "bytes": amount}
        for variant in analysis.variants
        if variant.memory is not None
        for category, amounts in variant.memory.timeline_categories.items()
        for time, amount in zip(variant.memory.timeline_s, amounts, strict=True)
    ]


def _fields(table: str, item: object, variant: str | None = None) -> Row:
    """The fields of `item` that the table has columns for; enumerations are str already."""
    row = {name: getattr(item, name) for name in SCHEMAS[table] if name != "variant"}
    return row if variant is None else {"variant": variant, **row}


def _value(estimate: Estimate | Missing) -> float | None:
    return estimate.value if isinstance(estimate, Estimate) else None
