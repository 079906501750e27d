"""A figure that knows what it is of, so that a failed assertion on it can say why."""

from dataclasses import dataclass, field
from typing import Self

from perfkit import units

_SHOWN = {"bytes": units.format_bytes, "FLOP": units.format_flops}

_MANIFOLD = 10


@dataclass(frozen=True)
class Meaning:
    """`title` in words, `unit` as quantities have them, `made_by` lines on what the figure is made of."""

    title: str
    unit: str = ""
    made_by: tuple[str, ...] = field(default=(), compare=False)


class Figure(int):
    """A count or an amount in bytes or FLOPs: an int in every respect, but for what pytest says of it."""

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
    """A value of a quantity in words; of bytes and FLOPs the exact number beside the rounded one."""
    exact = f"{value:,.0f}"
    shown = _SHOWN[unit](value) if unit in _SHOWN else exact
    return shown if unit not in _SHOWN or shown == f"{exact} B" else f"{shown} ({exact})"


def format_change(before: float, after: float, unit: str) -> str:
    """`+10.3 MiB, +12.5 %`; what has grown manifold is in no per cent."""
    shown = format_amount(abs(after - before), unit).partition(" (")[0]
    relative = (
        f", {units.format_signed_percent(after / before - 1, 2)}" if before and after < _MANIFOLD * before else ""
    )
    return f"{'-' if after < before else '+'}{shown}{relative}"
