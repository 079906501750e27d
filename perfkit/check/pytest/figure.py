"""A number with its meaning, which explains failed assertions."""

from dataclasses import dataclass, field
from typing import Self

from perfkit.core import units

_SHOWN = {"bytes": units.format_bytes, "FLOP": units.format_flops}

_MANIFOLD = 10


@dataclass(frozen=True)
class Meaning:
    """The `title`, the `unit` as for quantities, and `made_by` with lines on the figure's parts."""

    title: str
    unit: str = ""
    made_by: tuple[str, ...] = field(default=(), compare=False)


class Figure(int):
    """A count or an amount in bytes or FLOPs: an int with explanations in pytest."""

    meaning: Meaning

    def __new__(cls, value: float, meaning: Meaning) -> Self:
        figure = super().__new__(cls, round(value))
        figure.meaning = meaning
        return figure

    def __repr__(self) -> str:
        return format_amount(int(self), self.meaning.unit)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


def format_amount(value: float, unit: str) -> str:
    """A quantity's value; bytes and FLOPs both exact and rounded."""
    exact = f"{value:,.0f}"
    text = _SHOWN[unit](value) if unit in _SHOWN else exact
    return text if unit not in _SHOWN or text == f"{exact} B" else f"{text} ({exact})"


def format_change(before: float, after: float, unit: str) -> str:
    """`+10.3 MiB, +12.5 %`; without a percentage for growth by factors."""
    text = format_amount(abs(after - before), unit).partition(" (")[0]
    relative = (
        f", {units.format_signed_percent(after / before - 1, 2)}" if before and after < _MANIFOLD * before else ""
    )
    return f"{'-' if after < before else '+'}{text}{relative}"
