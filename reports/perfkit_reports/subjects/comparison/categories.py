"""Peak memory of each run by category."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from perfkit.core import units
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder, list_peak_categories

_ALL = "all"


class _CategoryRow(NamedTuple):
    category: str
    bytes: tuple[int, ...]

    @property
    def change(self) -> int:
        return max((amount - self.bytes[0] for amount in self.bytes[1:]), key=abs, default=0)


def build_table(holders: Sequence[Holder]) -> tuple[Table, ...]:
    """Categories by change, the peak last; nothing for a single holder."""
    if len(holders) < 2:
        return ()
    rows = sorted(
        (_build_row(category, holders) for category, _ in list_peak_categories(holders)), key=lambda r: -abs(r.change)
    )
    peak = _CategoryRow(_ALL, tuple(holder.account.peak_bytes for holder in holders))
    columns: list[Column[_CategoryRow]] = [
        Column("Category", lambda row: Cell(row.category), numeric=False, weight=Weight.BRIEF)
    ]
    columns += [
        Column(holder.name, _make_cell_builder(place), weight=Weight.BRIEF) for place, holder in enumerate(holders)
    ]
    return (
        Table(
            id="memory-compared",
            title="At the peak, vs the first",
            columns=columns,
            rows=[*rows, peak],
            what="category",
            whats="categories",
            data="memory",
            emphasis=lambda row: row.category == _ALL,
            weight=Weight.BRIEF,
        ),
    )


def _build_row(category: str, holders: Sequence[Holder]) -> _CategoryRow:
    amounts = (sum(part.bytes for part in holder.account.categories if part.category == category) for holder in holders)
    return _CategoryRow(category, tuple(amounts))


def _make_cell_builder(place: int) -> Callable[[_CategoryRow], Cell]:
    return lambda row: _make_bytes_cell(row, place)


def _make_bytes_cell(row: _CategoryRow, place: int) -> Cell:
    amount, change = row.bytes[place], row.bytes[place] - row.bytes[0]
    shown = units.format_bytes(amount) if amount else NOTHING
    if place == 0 or not change:
        return Cell(shown, value=amount)
    sign, tone = ("+", "bad") if change > 0 else ("-", "good")
    return Cell(shown, detail=f"{sign}{units.format_bytes(abs(change))}", value=amount, tone=tone)
