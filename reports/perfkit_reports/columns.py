"""Columns of a table of anything: one function from a row to a cell each, shared by every renderer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from perfkit import units
from perfkit_reports.cells import NOT_KNOWN, Cell, unknown

NOTHING = "–"

Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """`code` sets names in a fixed width, `wrap` breaks long text, `extra` is shown only when asked for.

    `meter` draws a bar behind the number, in proportion to the largest of the table.
    """

    title: str
    cell: Callable[[Row], Cell]
    numeric: bool = True
    help: str = ""
    code: bool = False
    meter: bool = False
    wrap: bool = False
    extra: bool = False

    def largest(self, rows: Sequence[Row]) -> float:
        """The largest known number of the column, 1 where there is none."""
        values = [value for row in rows if isinstance(value := self.cell(row).value, int | float)]
        return max(values, default=0.0) or 1.0


def text(value: str) -> Cell:
    """Words; a dash where there are none."""
    return Cell(value or NOTHING, value=value)


def known(value: float | None, show: Callable[[float], str], reason: str) -> Cell:
    """A number; where it is not known, n/a and why."""
    return unknown(reason) if value is None else Cell(show(value), value=value)


def count(value: float) -> str:
    """A number of calls per step: whole where it is, else three digits."""
    return f"{value:,.0f}" if value == round(value) else units.significant(value)


def telling(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> list[Column[Row]]:
    """The columns that say anything in some row: module names and shapes are often not recorded."""
    return [column for column in columns if any(column.cell(row).text not in (NOTHING, "") for row in rows)]


def is_known(cell: Cell) -> bool:
    return not (cell.reason and cell.text == NOT_KNOWN)
