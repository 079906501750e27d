"""Packed sequences against padded ones: two rows per variant, and a sentence for the first."""

from collections.abc import Iterator
from typing import NamedTuple

from perfkit.analysis.model.plan import Interval, Plan, PlannedVariant
from perfkit.core import units
from perfkit_reports.cells import make_optional_cell
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan import plan_cells

_ATTENTION = {"documents": "within sequences", "rows": "over whole rows"}


class RowsOfTokens(NamedTuple):
    """Rows of a variant: their tokens, the share of them that trains, and what a step needs."""

    variant: str
    how: str
    fill: float
    step_s: Interval | None
    units_per_step: float
    needed: Interval | None
    attention: str

    @property
    def units_per_s(self) -> float | None:
        """Tokens of sequences per second, on all ranks."""
        return None if self.step_s is None else self.units_per_step / self.step_s.value


def list_rows(plan: Plan) -> list[RowsOfTokens]:
    """Packed and padded rows of each variant with packing."""
    return [row for variant in plan.variants for row in _list_rows(variant)]


def _list_rows(variant: PlannedVariant) -> Iterator[RowsOfTokens]:
    packing = variant.packing
    if packing is None:
        return
    step = None if variant.step_s is None else variant.step_s.total
    how = f"packed to {packing.row_tokens:,}"
    yield RowsOfTokens(
        variant.name, how, packing.fill, step, variant.units_per_step, variant.needed_bytes, packing.attention
    )
    yield RowsOfTokens(
        variant.name,
        f"padded to {packing.padded_tokens:,}",
        packing.padded_fill,
        packing.padded_step_s,
        packing.padded_units_per_step,
        packing.padded_needed,
        "rows",
    )


def build_packing_table(plan: Plan) -> Iterator[Table]:
    """Packed and padded rows; none where nothing is packed."""
    rows = list_rows(plan)
    if rows:
        yield Table(
            id="packing",
            title="Packed and padded rows",
            columns=_COLUMNS,
            rows=rows,
            what="row",
            data="packing",
            caption="About as many tokens a step in both, with padding, which does not train.",
            weight=Weight.BRIEF,
        )


def list_gains(plan: Plan) -> Iterator[str]:
    """How many times as many tokens train per second in packed rows, for each variant."""
    rows = list_rows(plan)
    for packed, padded in zip(rows[::2], rows[1::2], strict=True):
        if packed.units_per_s and padded.units_per_s:
            ratio = units.format_significant(packed.units_per_s / padded.units_per_s)
            yield f"{packed.variant}: packing trains {ratio} times the tokens per second of padding."


def _make_step_cell(row: RowsOfTokens) -> Cell:
    if row.step_s is None:
        return make_unknown_cell("no predicted time")
    return Cell(
        units.format_seconds(row.step_s.value), detail=plan_cells.format_time_span(row.step_s), value=row.step_s.value
    )


def _make_needed_cell(row: RowsOfTokens) -> Cell:
    if row.needed is None:
        return Cell(NOTHING)
    return Cell(
        units.format_bytes(row.needed.value), detail=plan_cells.format_size_span(row.needed), value=row.needed.value
    )


_COLUMNS: tuple[Column[RowsOfTokens], ...] = (
    Column("Variant", lambda row: Cell(row.variant), numeric=False, weight=Weight.BRIEF),
    Column("Rows", lambda row: Cell(row.how), numeric=False, weight=Weight.BRIEF),
    Column("Training tokens", lambda row: Cell(units.format_percent(row.fill, 0), value=row.fill), weight=Weight.BRIEF),
    Column("Step time", _make_step_cell, weight=Weight.BRIEF),
    Column(
        "Trained tokens/s",
        lambda row: make_optional_cell(row.units_per_s, units.format_significant, "no predicted time"),
        weight=Weight.BRIEF,
    ),
    Column("Needed", _make_needed_cell, weight=Weight.BRIEF),
    Column(
        "Attention", lambda row: Cell(_ATTENTION[row.attention], id=row.attention), numeric=False, weight=Weight.BRIEF
    ),
)
