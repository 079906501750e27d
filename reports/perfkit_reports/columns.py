"""Cells of any table: words, known and unknown numbers, counts."""

from collections.abc import Callable

from perfkit import units
from perfkit_reports.document.cells import Cell, unknown
from perfkit_reports.document.tables import NOTHING, Column, Row, telling

__all__ = ["NOTHING", "Column", "Row", "count", "known", "telling", "text"]


def text(value: str) -> Cell:
    """Words; a dash where there are none."""
    return Cell(value or NOTHING, value=value)


def known(value: float | None, show: Callable[[float], str], reason: str) -> Cell:
    """A number; where it is not known, n/a and why."""
    return unknown(reason) if value is None else Cell(show(value), value=value)


def count(value: float) -> str:
    """A number of calls per step: whole where it is, else three digits."""
    return f"{value:,.0f}" if value == round(value) else units.significant(value)
