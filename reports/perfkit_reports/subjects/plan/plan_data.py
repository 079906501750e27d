"""Raw rows of a plan in SI base units."""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from types import GenericAlias
from typing import Any

from perfkit.analysis.model.plan import Packing, Plan, PlannedLength, PlannedPhase, PlannedVariant
from perfkit.analysis.model.step import OpRow
from perfkit_reports.document.tables import RawTable, build_owned_data

# (type, attribute path) by column; None if part of the path is unknown.
_VARIANTS: Mapping[str, tuple[type | GenericAlias, str]] = {
    "variant": (str, "name"),
    "world_size": (int, "world_size"),
    "peak_allocated_bytes": (float, "peak_allocated_bytes.value"),
    "peak_phase": (str, "peak_allocated_bytes.phase"),
    "needed_bytes": (float, "needed_bytes.value"),
    "needed_low_bytes": (float, "needed_bytes.low"),
    "needed_high_bytes": (float, "needed_bytes.high"),
    "verdict": (str, "verdict"),
    "step_s": (float, "step_s.total.value"),
    "step_low_s": (float, "step_s.total.low"),
    "step_high_s": (float, "step_s.total.high"),
    "reason": (str, "reason"),
}
_BESIDE_TENSORS = {
    "variant": str,
    "name": str,
    "in_the_peak": bool,
    "bytes": float,
    "low_bytes": float,
    "high_bytes": float,
    "source": str,
}
_OFFERS = {
    "device": str,
    "count": int,
    "variant": str,
    "verdict": str,
    "limit_bytes": float,
    "units_per_s": float,
    "mfu": float,
    "cost": float,
}
_LARGEST = {"variant": str, "parameter": str, "size": int, "limit_bytes": int, "margin": float, "most": int}
# (type, attribute path) by column, as of `_VARIANTS`.
_PHASES: Mapping[str, tuple[type | GenericAlias, str]] = {
    "phase": (str, "phase"),
    "needed_bytes": (float, "needed.value"),
    "needed_low_bytes": (float, "needed.low"),
    "needed_high_bytes": (float, "needed.high"),
    "fit": (str, "fit"),
    "host_bytes": (int, "host_bytes"),
    "seconds": (float, "seconds.value"),
    "cause": (str, "cause"),
    "reason": (str, "reason"),
}
_LENGTHS: Mapping[str, tuple[type | GenericAlias, str]] = {
    "tokens": (int, "tokens"),
    "batch_share": (float, "batch_share"),
    "step_share": (float, "step_share"),
    "needed_bytes": (float, "needed.value"),
    "needed_low_bytes": (float, "needed.low"),
    "needed_high_bytes": (float, "needed.high"),
    "fit": (str, "fit"),
}
_PACKING: Mapping[str, tuple[type | GenericAlias, str]] = {
    "row_tokens": (int, "row_tokens"),
    "fill": (float, "fill"),
    "attention": (str, "attention"),
    "padded_tokens": (int, "padded_tokens"),
    "padded_fill": (float, "padded_fill"),
    "padded_step_s": (float, "padded_step_s.value"),
    "padded_units_per_step": (float, "padded_units_per_step"),
    "padded_needed_bytes": (float, "padded_needed.value"),
}
_TIME = {"variant": str, "part": str, "seconds": float}


def build_data(plan: Plan) -> tuple[RawTable, ...]:
    """All tables except those of memory."""

    def list_rows(list_parts: Callable[[PlannedVariant], Iterator[dict[str, Any]]]) -> list[dict[str, Any]]:
        return [{"variant": variant.name, **row} for variant in plan.variants for row in list_parts(variant)]

    schema = {name: kind for name, (kind, _) in _VARIANTS.items()}
    return (
        RawTable("variants", schema, lambda: [_build_variant_row(variant) for variant in plan.variants]),
        RawTable("beside_tensors", _BESIDE_TENSORS, lambda: list_rows(_list_beside_tensors)),
        RawTable("offers", _OFFERS, lambda: [{name: getattr(each, name) for name in _OFFERS} for each in plan.offers]),
        RawTable(
            "largest", _LARGEST, lambda: [{name: getattr(each, name) for name in _LARGEST} for each in plan.largest]
        ),
        RawTable(
            "phases",
            {"variant": str, **{name: kind for name, (kind, _) in _PHASES.items()}},
            lambda: list_rows(_list_phases),
        ),
        RawTable(
            "lengths",
            {"variant": str, **{name: kind for name, (kind, _) in _LENGTHS.items()}},
            lambda: list_rows(_list_lengths),
        ),
        RawTable(
            "packing",
            {"variant": str, **{name: kind for name, (kind, _) in _PACKING.items()}},
            lambda: list_rows(_list_packing),
        ),
        RawTable("time", _TIME, lambda: list_rows(_list_time)),
        build_owned_data(
            "ops", OpRow, {"variant": str}, [([each.name], each) for each in plan.variants], lambda each: each.ops
        ),
    )


def _build_variant_row(variant: PlannedVariant) -> dict[str, Any]:
    return {name: _get_path(variant, path) for name, (_, path) in _VARIANTS.items()}


def _list_phases(variant: PlannedVariant) -> Iterator[dict[str, Any]]:
    for phase in variant.phases:
        yield {name: _get_path(phase, path) for name, (_, path) in _PHASES.items()}


def _list_lengths(variant: PlannedVariant) -> Iterator[dict[str, Any]]:
    for length in variant.lengths:
        yield {name: _get_path(length, path) for name, (_, path) in _LENGTHS.items()}


def _list_packing(variant: PlannedVariant) -> Iterator[dict[str, Any]]:
    if variant.packing is not None:
        yield {name: _get_path(variant.packing, path) for name, (_, path) in _PACKING.items()}


def _get_path(variant: PlannedVariant | PlannedPhase | PlannedLength | Packing, path: str) -> Any:
    first, _, remainder = path.partition(".")
    parent = getattr(variant, first)
    return parent if parent is None or not remainder else attrgetter(remainder)(parent)


def _list_beside_tensors(variant: PlannedVariant) -> Iterator[dict[str, Any]]:
    for in_the_peak, rows in ((True, variant.within_allocator), (False, variant.outside_allocator)):
        for row in rows:
            bounds = {"bytes": row.bytes.value, "low_bytes": row.bytes.low, "high_bytes": row.bytes.high}
            yield {"name": row.name, "in_the_peak": in_the_peak, **bounds, "source": row.source}


def _list_time(variant: PlannedVariant) -> Iterator[dict[str, Any]]:
    if variant.step_s is not None:
        for part, seconds in variant.step_s.parts.items():
            yield {"part": part, "seconds": seconds}
