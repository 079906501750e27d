"""What fills the memory at the peak of each run, category by category."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from perfkit import units
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder, categories_at_peak

_ALL = "all"


class _Row(NamedTuple):
    category: str
    bytes: tuple[int, ...]

    @property
    def change(self) -> int:
        return max((amount - self.bytes[0] for amount in self.bytes[1:]), key=abs, default=0)


def table(holders: Sequence[Holder]) -> tuple[Table, ...]:
    """The largest change first, the peak last; nothing to compare of one holder."""
    if len(holders) < 2:
        return ()
    rows = sorted(
        (_row(category, holders) for category, _ in categories_at_peak(holders)), key=lambda r: -abs(r.change)
    )
    peak = _Row(_ALL, tuple(holder.account.peak_bytes for holder in holders))
    columns: list[Column[_Row]] = [
        Column("Category", lambda row: Cell(row.category), numeric=False, weight=Weight.BRIEF)
    ]
    columns += [Column(holder.name, _cell(place), weight=Weight.BRIEF) for place, holder in enumerate(holders)]
    return (
        Table(
            id="memory-compared",
            title="At the peak, against the first",
            columns=columns,
            rows=[*rows, peak],
            what="category",
            whats="categories",
            data="memory",
            emphasis=lambda row: row.category == _ALL,
            weight=Weight.BRIEF,
        ),
    )


def _row(category: str, holders: Sequence[Holder]) -> _Row:
    held = (sum(part.bytes for part in holder.account.categories if part.category == category) for holder in holders)
    return _Row(category, tuple(held))


def _cell(place: int) -> Callable[[_Row], Cell]:
    return lambda row: _bytes(row, place)


def _bytes(row: _Row, place: int) -> Cell:
    amount, change = row.bytes[place], row.bytes[place] - row.bytes[0]
    shown = units.nbytes(amount) if amount else NOTHING
    if place == 0 or not change:
        return Cell(shown, value=amount)
    sign, tone = ("+", "bad") if change > 0 else ("-", "good")
    return Cell(shown, detail=f"{sign}{units.nbytes(abs(change))}", value=amount, tone=tone)
