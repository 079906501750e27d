"""Messages on a test's figures, and their plain values for pytest."""

import operator
from typing import Any

import msgspec

from perfkit.check.pytest.check import TestFigures
from perfkit.check.pytest.figure import Figure, format_amount, format_change

_HOLDS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def explain_comparison(op: str, left: object, right: object) -> list[str] | None:
    """Lines on a failed comparison with a figure; None if neither side is one."""
    figure, other = (left, right) if isinstance(left, Figure) else (right, left)
    if not isinstance(figure, Figure) or not isinstance(other, int | float) or op not in _HOLDS:
        return None
    unit = figure.meaning.unit
    sides = [format_amount(side, unit) for side in (left, right)]  # type: ignore[arg-type]  # one is a figure, one a number
    lines = [f"{sides[0]} {op} {sides[1]}", f"{figure.meaning.title}: {figure!r}"]
    if figure != other:
        lines[1] += f", {format_change(other, figure, unit)} vs {format_amount(other, unit)}"
    if figure.meaning.made_by:
        lines += ["largest parts:", *(f"    {line}" for line in figure.meaning.made_by)]
    return lines


def convert_to_plain(figures: TestFigures) -> dict[str, Any]:
    """A test's figures as plain values for another process."""
    return {
        "shown": [list(row) for row in figures.shown],
        "improvements": figures.improvements,
        "worsenings": figures.worsenings,
        "kept": figures.kept,
        "environment": None if figures.environment is None else msgspec.to_builtins(figures.environment),
    }
