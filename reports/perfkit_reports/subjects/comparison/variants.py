"""Variants of suites side by side, in a table and in sentences."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from perfkit.analysis.compare.compared_figures import PEAK, STEP
from perfkit.analysis.compare.sides import AT
from perfkit.analysis.compare.variants import SPEED_UP, TIMES
from perfkit.analysis.difference.verdict import format_speed_change, format_time_change
from perfkit.analysis.model.comparison import ComparedAmount, ComparedFigure, ComparedVariant, Comparison
from perfkit_reports.cells import format_change, format_factor, format_range
from perfkit_reports.document.blocks import Block, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.comparison import figures
from perfkit_reports.subjects.tables import make_list

_CAPTION = (
    "Speed-ups are relative to each suite's own baseline, from processes run side by side; 95 % intervals are "
    "below. Changes are relative to the first suite, and inconclusive if intervals overlap or are missing. "
    "Suites ran at different times: their changes include changes in machine load, their intervals do not."
)


class _VariantRow(NamedTuple):
    variant: str
    figure: ComparedFigure


def build_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Tables of variants; nothing unless two whole suites are compared."""
    only = [f"Only in {run}: {', '.join(names)}." for run, names in comparison.unshared_variants.items()]
    return (*_build_table(comparison), *make_list("only-in-one", only, weight=Weight.BRIEF))


def build_headline(comparison: Comparison) -> str:
    """For two suites, the numbers of faster and slower variants; "" if none can be compared."""
    steps = list(_list_changes(comparison, STEP))
    if not steps or len(comparison.sides) != 2:
        return ""
    decided = [(name, before, after) for name, before, after in steps if is_decided(before, after)]
    against = f"{_get_suite_name(comparison, 1)} vs {_get_suite_name(comparison, 0)}"
    if not decided:
        return f"{against}: no variant of {len(steps)} changed clearly"
    slower = sum(_get_value(after) > _get_value(before) for _, before, after in decided)
    counts = [f"{count} {word}" for count, word in ((slower, "slower"), (len(decided) - slower, "faster")) if count]
    if inconclusive := len(steps) - len(decided):
        counts.append(f"{inconclusive} inconclusive")
    text = f"{against}: {', '.join(counts)} of {len(steps)} variants"
    name, before, after = max(decided, key=lambda each: abs(math.log(_get_value(each[2]) / _get_value(each[1]))))
    old, new = _get_value(before), _get_value(after)
    change = f"{format_speed_change(old, new)}, {format_time_change(old, new)} per step"
    return f"{text}; {'largest change: ' if len(decided) > 1 else ''}{name}: {change}"


def list_remarks(comparison: Comparison) -> Iterator[str]:
    """Changed speed-ups, with their intervals."""
    if len(comparison.sides) != 2:
        return
    for name, before, after in _list_changes(comparison, SPEED_UP):
        if is_decided(before, after):
            yield f"Speed-up of {name}: {_format_with_interval(before)} → {_format_with_interval(after)}"


def is_decided(first: ComparedAmount, other: ComparedAmount) -> bool:
    """True if both have intervals that do not overlap."""
    if first.low is None or first.high is None or other.low is None or other.high is None:
        return False
    return first.high < other.low or other.high < first.low


def _list_changes(comparison: Comparison, title: str) -> Iterator[tuple[str, ComparedAmount, ComparedAmount]]:
    for variant in comparison.variants:
        for figure in variant.figures:
            before, after = figure.amounts[:2]
            if figure.title == title and before.value and after.value:
                yield variant.name, before, after


def _build_table(comparison: Comparison) -> Iterator[Table]:
    rows = [_VariantRow(variant.name, figure) for variant in comparison.variants for figure in variant.figures]
    if not rows:
        return
    columns: list[Column[_VariantRow]] = [
        Column("Variant", lambda row: Cell(row.variant), numeric=False, weight=Weight.BRIEF),
        Column("Figure", lambda row: Cell(row.figure.title), numeric=False, weight=Weight.BRIEF),
    ]
    columns += [
        Column(_get_suite_name(comparison, place), _make_cell_builder(place), weight=Weight.BRIEF)
        for place in range(len(comparison.sides))
    ]
    yield Table(
        id="variants",
        title="Variants side by side",
        columns=columns,
        rows=rows,
        what="figure",
        data="variants",
        caption=_CAPTION,
        weight=Weight.BRIEF,
        emphasis=lambda row: row.figure.title == STEP,
    )


def list_rows(variant: ComparedVariant, runs: list[str]) -> Iterator[dict[str, object]]:
    """Raw rows, one per figure and run."""
    for figure in variant.figures:
        for run, amount in zip(runs, figure.amounts, strict=True):
            known = {"value": amount.value, "low": amount.low, "high": amount.high}
            yield {"variant": variant.name, "run": run, "figure": figure.title, "unit": figure.unit, **known}


def _make_cell_builder(place: int) -> Callable[[_VariantRow], Cell]:
    return lambda row: _make_amount_cell(row.figure, place)


def _make_amount_cell(figure: ComparedFigure, place: int) -> Cell:
    cell, amount, first = figures.make_amount_cell(figure, place), figure.amounts[place], figure.amounts[0]
    if amount.value is None or figure.title == PEAK:  # counted: no interval
        return cell
    interval = (
        "no interval" if amount.low is None or amount.high is None else _format_span(figure, amount.low, amount.high)
    )
    if not place or not first.value:
        return replace(cell, detail=interval)
    change = format_change(amount.value / first.value - 1)
    if is_decided(first, amount):
        return replace(cell, detail=f"{interval}, {change}")
    return replace(cell, detail=f"{interval}, {change}: inconclusive", tone="unsure")


def _format_span(figure: ComparedFigure, low: float, high: float) -> str:
    shown = figures.format_amount(high, figure.unit)
    unit = "×" if figure.unit == TIMES else f" {shown.partition(' ')[2]}"
    return format_range(figures.format_amount(low, figure.unit), shown, unit)


def _format_with_interval(amount: ComparedAmount) -> str:
    assert amount.low is not None
    assert amount.high is not None
    return f"{format_factor(_get_value(amount))} ({format_factor(amount.low)} to {format_factor(amount.high)})"


def _get_suite_name(comparison: Comparison, place: int) -> str:
    """A suite's name, without the variant of its own figures."""
    side = comparison.sides[place]
    return side.name.removesuffix(f"{AT}{side.subject}") if comparison.variants else side.name


def _get_value(amount: ComparedAmount) -> float:
    assert amount.value is not None
    return amount.value
