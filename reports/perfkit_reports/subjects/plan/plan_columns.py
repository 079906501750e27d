"""Columns of a plan's tables."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from perfkit.analysis.model.plan import GpuOffer, NonTensorMemory, Plan, PlannedVariant
from perfkit.core import units
from perfkit.store.price import format_cost_unit
from perfkit_reports.cells import make_integer_cell
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.palette import Style
from perfkit_reports.subjects.plan import plan_cells, plan_offers

_column: Callable[..., Column[PlannedVariant]] = partial(Column, weight=Weight.BRIEF)


def build_variant_columns(plan: Plan, styles: dict[str, Style]) -> list[Column[PlannedVariant]]:
    """Columns without a verdict if no limit is given, and without times if none was predicted."""
    limit = plan.limit_bytes
    columns = [_column("Variant", lambda variant: _make_name_cell(variant, styles[variant.name]), numeric=False)]
    if any(variant.world_size > 1 for variant in plan.variants):
        columns.append(Column("Ranks", lambda variant: make_integer_cell(variant.world_size)))
    columns.append(_column("Allocator peak", plan_cells.make_peak_cell, help="peak of torch's allocator in one rank"))
    if any(variant.outside_allocator for variant in plan.variants):
        columns.append(_column("Needed", plan_cells.make_needed_cell, help="including memory outside the allocator"))
    if len(plan.variants) > 1 and any(variant.is_baseline for variant in plan.variants):
        columns.append(_column("vs baseline", lambda variant: plan_cells.make_change_cell(variant, plan)))
    if limit is not None:
        columns.append(
            _column("Fits", lambda variant: plan_cells.make_fits_cell(variant, limit), numeric=False, pill=True)
        )
    if any(variant.step_s is not None for variant in plan.variants):
        columns.append(_column("Step time", plan_cells.make_step_time_cell))
    columns.extend(_build_offer_columns(plan))
    columns.append(Column("Largest parts", plan_cells.make_largest_cell, numeric=False, wrap=True))
    return columns


def _build_offer_columns(plan: Plan) -> Iterator[Column[PlannedVariant]]:
    """Speed, utilization and cost, where the GPUs have no table of their own; cost only at a price."""
    if not plan.offers or len({(offer.device, offer.count) for offer in plan.offers}) > 1:
        return
    unit = plan.offers[0].unit or "units"
    cells = [(f"{unit.capitalize()}/s", plan_offers.make_speed_cell), ("MFU", plan_offers.make_mfu_cell)]
    if any(offer.price is not None for offer in plan.offers):
        cells.append((f"Cost per {format_cost_unit(unit)}", plan_offers.make_cost_cell))
    for title, make_cell in cells:
        yield _column(title, partial(_make_offer_cell, plan, make_cell))


def _make_offer_cell(plan: Plan, make_cell: Callable[[GpuOffer | None], Cell], variant: PlannedVariant) -> Cell:
    return make_cell(plan_offers.find_offer(plan, variant.name, variant.world_size))


def _make_name_cell(variant: PlannedVariant, style: Style) -> Cell:
    return Cell(variant.name, value=variant.name, swatch=(style.color, style.symbol))


class NonTensorRow(NamedTuple):
    """Equal non-tensor memory of `variants`; `in_peak` says whether it counts in the allocator's peak."""

    variants: str
    memory: NonTensorMemory
    in_peak: bool


def group_equal_rows(plan: Plan) -> list[NonTensorRow]:
    """Non-tensor memory in the order of the plan; variants with equal figures share a row."""
    names: dict[tuple[NonTensorMemory, bool], list[str]] = {}
    for variant in plan.variants:
        for in_peak, rows in ((True, variant.within_allocator), (False, variant.outside_allocator)):
            for row in rows:
                names.setdefault((row, in_peak), []).append(variant.name)
    every = sum(variant.memory is not None for variant in plan.variants)
    return [
        NonTensorRow("all" if len(owners) == every > 1 else ", ".join(owners), row, in_peak)
        for (row, in_peak), owners in names.items()
    ]


BEYOND: tuple[Column[NonTensorRow], ...] = (
    Column("Memory", lambda row: Cell(row.memory.name), numeric=False),
    Column("Variant", lambda row: Cell(row.variants), numeric=False, wrap=True),
    Column(
        "Location",
        lambda row: Cell("in the peak" if row.in_peak else "outside the allocator"),
        numeric=False,
        help="inside or outside the allocator peak",
    ),
    Column(
        "Expected",
        lambda row: Cell(units.format_bytes(row.memory.bytes.value), value=row.memory.bytes.value),
        meter=True,
    ),
    Column("Range", lambda row: Cell(plan_cells.format_size_span(row.memory.bytes) or "exact")),
    Column(
        "Source of the range",
        lambda row: Cell(row.memory.source),
        numeric=False,
        wrap=True,
        weight=Weight.DETAIL,
    ),
)
