"""Headline figures of runs side by side, with changes from the first run."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from perfkit.analysis.compare.variants import TIMES
from perfkit.analysis.model.comparison import ComparedFigure, Comparison
from perfkit.core import units
from perfkit_reports.cells import format_change, format_count, format_factor
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.comparison.compare_headline import is_undecided

_CAPTION = (
    "Changes are relative to the first run; overlapping intervals are inconclusive. Without intervals, they "
    "compare single processes and are only indicative."
)
# Smaller changes count as none; larger ones are shown as multiples.
_EQUAL, _MANIFOLD = 0.0005, 4.0
_SHARE = "1"  # the unit


def build_table(comparison: Comparison) -> Table:
    """One row per figure, one column per run."""
    columns: list[Column[ComparedFigure]] = [
        Column("Figure", lambda figure: Cell(figure.title), numeric=False, weight=Weight.BRIEF)
    ]
    for place, side in enumerate(comparison.sides):
        columns.append(Column(side.name, _make_cell_builder(place), weight=Weight.BRIEF))
    return Table(
        id="figures",
        title="Side by side",
        columns=columns,
        rows=_list_figures(comparison),
        what="figure",
        data="figures",
        caption=_CAPTION,
        weight=Weight.BRIEF,
    )


def _list_figures(comparison: Comparison) -> list[ComparedFigure]:
    """Figures without a share that is the same in all runs as the share before it: HFU where nothing is recomputed."""
    figures = comparison.figures
    repeated = [
        after.unit == before.unit == _SHARE and _get_values(after) == _get_values(before)
        for before, after in pairwise(figures)
    ]
    return [figure for figure, same in zip(figures, (False, *repeated), strict=False) if not same]


def _get_values(figure: ComparedFigure) -> list[float | None]:
    return [amount.value for amount in figure.amounts]


def _make_cell_builder(place: int) -> Callable[[ComparedFigure], Cell]:
    return lambda figure: make_amount_cell(figure, place)


def make_amount_cell(figure: ComparedFigure, place: int) -> Cell:
    """A run's figure, with its change from the first run's."""
    amount, first = figure.amounts[place], figure.amounts[0]
    if amount.value is None:
        return make_unknown_cell(amount.reason)
    of = f" of {amount.of}" if amount.of else ""
    shown = Cell(f"{format_amount(amount.value, figure.unit)}{of}", reason=amount.source, value=amount.value)
    if place == 0 or not first.value or amount.of != first.of:  # shares of different wholes do not compare
        return shown
    change = amount.value / first.value - 1
    if abs(change) < _EQUAL:
        return replace(shown, detail="the same")
    text = format_change(change) if change < _MANIFOLD else f"{units.format_significant(change + 1)} times"
    if is_undecided(first, amount):
        return replace(shown, detail=f"{text}, inconclusive", tone="unsure")
    good = {"less": change < 0, "more": change > 0}.get(figure.better)
    return replace(shown, detail=text, tone="" if good is None else "good" if good else "bad")


def format_amount(value: float, unit: str) -> str:
    """A figure in the unit of a `Measurement`."""
    show: dict[str, Callable[[float], str]] = {
        "s": units.format_seconds,
        "bytes": units.format_bytes,
        "FLOP": units.format_flops,
        "1": units.format_percent,
        "Hz": lambda hertz: units.format_si(hertz, "Hz"),
        TIMES: format_factor,
        "": format_count,
    }
    return show[unit](value) if unit in show else f"{units.format_significant(value)} {unit}"
