"""The variants of suites side by side, and what they come to in words."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from perfkit.analysis.compare.figures import PEAK, STEP
from perfkit.analysis.compare.sides import AT
from perfkit.analysis.compare.variants import SPEED_UP, TIMES
from perfkit.analysis.compare.verdict import format_speed_change, format_time_change
from perfkit.analysis.model.comparison import ComparedAmount, ComparedFigure, ComparedVariant, Comparison
from perfkit_reports.cells import signed, span, times
from perfkit_reports.document.blocks import Block, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.compare import figures
from perfkit_reports.subjects.tables import listed

_CAPTION = (
    "Speed-ups are over each suite's own baseline, from processes beside each other; 95 % intervals are below. Changes "
    "are against the first suite, and not decided where intervals overlap or there are none. Suites are measured at "
    "different times: what the machine did meanwhile is in the changes, and in no interval."
)


class _Row(NamedTuple):
    variant: str
    figure: ComparedFigure


def blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Nothing unless two suites were named as a whole."""
    only = [f"Only in {run}: {', '.join(names)}." for run, names in comparison.only.items()]
    return (*_table(comparison), *listed("only-in-one", only, weight=Weight.BRIEF))


def headline(comparison: Comparison) -> str:
    """Of two suites, how many variants' steps became faster or slower; "" where that is not told of any."""
    steps = list(_changes(comparison, STEP))
    if not steps or len(comparison.sides) != 2:
        return ""
    decided = [(name, before, after) for name, before, after in steps if is_decided(before, after)]
    against = f"{_of(comparison, 1)} against {_of(comparison, 0)}"
    if not decided:
        return f"{against}: whether any of {len(steps)} variants is faster or slower is not decided"
    slower = sum(_value(after) > _value(before) for _, before, after in decided)
    told = [f"{count} {word}" for count, word in ((slower, "slower"), (len(decided) - slower, "faster")) if count]
    if rest := len(steps) - len(decided):
        told.append(f"{rest} not decided")
    said = f"{against}: of {len(steps)} variants {', '.join(told)}"
    name, before, after = max(decided, key=lambda each: abs(math.log(_value(each[2]) / _value(each[1]))))
    most = f"{format_speed_change(_value(before), _value(after))}, {format_time_change(_value(before), _value(after))} a step"
    return f"{said}; {'most' if len(decided) > 1 else 'it is'} {name}, {most}"


def remarks(comparison: Comparison) -> Iterator[str]:
    """Speed-ups that are others than in the first suite, with their intervals."""
    if len(comparison.sides) != 2:
        return
    for name, before, after in _changes(comparison, SPEED_UP):
        if is_decided(before, after):
            yield f"The speed-up of {name} went from {_with_interval(before)} to {_with_interval(after)}"


def is_decided(first: ComparedAmount, other: ComparedAmount) -> bool:
    """Whether both have an interval, and these do not overlap."""
    if first.low is None or first.high is None or other.low is None or other.high is None:
        return False
    return first.high < other.low or other.high < first.low


def _changes(comparison: Comparison, title: str) -> Iterator[tuple[str, ComparedAmount, ComparedAmount]]:
    for variant in comparison.variants:
        for figure in variant.figures:
            before, after = figure.amounts[:2]
            if figure.title == title and before.value and after.value:
                yield variant.name, before, after


def _table(comparison: Comparison) -> Iterator[Table]:
    rows = [_Row(variant.name, figure) for variant in comparison.variants for figure in variant.figures]
    if not rows:
        return
    columns: list[Column[_Row]] = [
        Column("Variant", lambda row: Cell(row.variant), numeric=False, weight=Weight.BRIEF),
        Column("Figure", lambda row: Cell(row.figure.title), numeric=False, weight=Weight.BRIEF),
    ]
    columns += [
        Column(_of(comparison, place), _cell(place), weight=Weight.BRIEF) for place in range(len(comparison.sides))
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


def rows(variant: ComparedVariant, runs: list[str]) -> Iterator[dict[str, object]]:
    """Raw rows, one a figure and run."""
    for figure in variant.figures:
        for run, amount in zip(runs, figure.amounts, strict=True):
            known = {"value": amount.value, "low": amount.low, "high": amount.high}
            yield {"variant": variant.name, "run": run, "figure": figure.title, "unit": figure.unit, **known}


def _cell(place: int) -> Callable[[_Row], Cell]:
    return lambda row: _amount(row.figure, place)


def _amount(figure: ComparedFigure, place: int) -> Cell:
    cell, amount, first = figures.amount_cell(figure, place), figure.amounts[place], figure.amounts[0]
    if amount.value is None or figure.title == PEAK:  # which is counted, and has no interval
        return cell
    interval = "no interval" if amount.low is None or amount.high is None else _span(figure, amount.low, amount.high)
    if not place or not first.value:
        return replace(cell, detail=interval)
    change = signed(amount.value / first.value - 1)
    if is_decided(first, amount):
        return replace(cell, detail=f"{interval}, {change}")
    return replace(cell, detail=f"{interval}, {change}: not decided", tone="unsure")


def _span(figure: ComparedFigure, low: float, high: float) -> str:
    shown = figures.told(high, figure.unit)
    unit = "×" if figure.unit == TIMES else f" {shown.partition(' ')[2]}"
    return span(figures.told(low, figure.unit), shown, unit)


def _with_interval(amount: ComparedAmount) -> str:
    assert amount.low is not None
    assert amount.high is not None
    return f"{times(_value(amount))} ({times(amount.low)} to {times(amount.high)})"


def _of(comparison: Comparison, place: int) -> str:
    """A suite's name, without the variant that its own figures are of."""
    side = comparison.sides[place]
    return side.name.removesuffix(f"{AT}{side.of}") if comparison.variants else side.name


def _value(amount: ComparedAmount) -> float:
    assert amount.value is not None
    return amount.value
