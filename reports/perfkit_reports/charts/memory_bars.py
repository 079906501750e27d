"""Amounts of memory as stacked horizontal bars, with the limit as a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from perfkit.core import units
from perfkit_reports.cells import format_range
from perfkit_reports.charts.frame import (
    Figure,
    Note,
    Trace,
    build_axis,
    build_row_bars,
    build_row_figure,
    build_scatter,
    choose_byte_scale,
    escape_text,
    format_hover,
)
from perfkit_reports.palette import NEUTRAL, VERMILLION, Fill, build_legend

_ROOM = 1.22  # of the longest bar, for its label
_BEYOND = tuple(Fill(gray, pattern) for pattern in ("", "/", "\\", "x", ".") for gray in ("#8d96a1", "#b9c0c9"))
_FAR = 4.0  # a limit this many times the longest bar would hide the bars


@dataclass(frozen=True)
class MemoryStack:
    """A bar of categories (name, bytes) and of memory `beyond` the allocator; `low` and `high` bound its `total` where
    inexact.

    `note` stands beside its name, in a word or two.
    """

    name: str
    total: float
    categories: tuple[tuple[str, float], ...]
    beyond: tuple[tuple[str, float], ...] = ()
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """The parts from left to right."""
        return (*self.categories, *self.beyond)

    @property
    def bounded(self) -> bool:
        """True where its end is not exact."""
        return self.low is not None and self.high is not None and self.low < self.high


def list_fills(stacks: Sequence[MemoryStack]) -> list[tuple[str, Fill]]:
    """(part, fill) of all, in the order in which they are stacked."""
    beyond = dict.fromkeys(name for stack in stacks for name, _ in stack.beyond)
    return [*build_legend([[name for name, _ in stack.categories] for stack in stacks]), *zip(beyond, cycle(_BEYOND))]


def is_limit_visible(stacks: Sequence[MemoryStack], limit_bytes: float | None) -> bool:
    """True if a limit fits in the range of the bars."""
    return limit_bytes is not None and limit_bytes <= _FAR * max(map(_get_end, stacks))


def build_memory_figure(
    stacks: Sequence[MemoryStack], title: str, whole: str, limit_bytes: float | None = None
) -> Figure:
    """Build the figure; `title` names the axis, `whole` the base of shares in hover text: `of the peak`."""
    limits = [limit_bytes] if limit_bytes is not None and is_limit_visible(stacks, limit_bytes) else []
    longest = max([*map(_get_end, stacks), *limits])
    scale, unit = choose_byte_scale(longest)
    amounts = [_build_amount_note(stack, scale) for stack in stacks if not stack.bounded]
    drawn = build_row_figure(
        [*_build_parts(stacks, scale, whole), *_build_bounds(stacks, scale)],
        [stack.name for stack in stacks],
        [*amounts, *(_build_limit_note(limit, scale) for limit in limits)],
        barmode="stack",
        margin={"l": 18, "r": 12, "t": 24 if limits else 6, "b": 52},
        shapes=[_build_limit_line(limit / scale) for limit in limits],
        xaxis=build_axis(f"{title} ({unit})", range=[0, _ROOM * longest / scale], fixedrange=True),
    )
    # Next to the bar there is no room on a narrow screen.
    for label, stack in zip(drawn["layout"]["annotations"], stacks, strict=False):
        if stack.bounded:
            label["text"] += f": {_format_bounds(stack)}"
        if stack.note:
            label["text"] += f": <i>{escape_text(stack.note)}</i>"
    return drawn


def _get_end(stack: MemoryStack) -> float:
    return max(stack.total, stack.high or 0.0)


def _build_parts(stacks: Sequence[MemoryStack], scale: float, whole: str) -> list[Trace]:
    return [
        build_row_bars(
            fill,
            [
                (stack.name, amount / scale, _format_hover(stack, name, amount, whole))
                for stack in stacks
                for name, amount in stack.parts
                if name == part
            ],
            name=escape_text(part),
        )
        for part, fill in list_fills(stacks)
    ]


def _format_hover(stack: MemoryStack, name: str, amount: float, whole: str) -> str:
    share = units.format_percent(amount / stack.total if stack.total else 0.0)
    return format_hover(f"{stack.name}: {name}", f"{units.format_bytes(amount)}, {share} {whole}")


def _build_bounds(stacks: Sequence[MemoryStack], scale: float) -> list[Trace]:
    """Whiskers at the ends of the bars that are not exact."""
    ends = [
        (stack.name, stack.total / scale, (stack.total - stack.low) / scale, (stack.high - stack.total) / scale)
        for stack in stacks
        if stack.bounded and stack.low is not None and stack.high is not None
    ]
    if not ends:
        return []
    names, places, below, above = zip(*ends, strict=True)
    look = {"color": NEUTRAL, "thickness": 1.6, "width": 6}
    error = {"type": "data", "array": list(above), "arrayminus": list(below), **look}
    return [build_scatter("markers", places, names, name="bounds", marker={"color": NEUTRAL, "size": 1}, error_x=error)]


def _format_bounds(stack: MemoryStack) -> str:
    low, high = units.format_bytes(stack.low or 0.0), units.format_bytes(stack.high or 0.0)
    return format_range(low, high, f" {high.split(' ')[-1]}")


def _build_amount_note(stack: MemoryStack, scale: float) -> Note:
    place = {"xanchor": "left", "align": "left", "xshift": 6, "showarrow": False}
    return {"x": stack.total / scale, "y": stack.name, "text": units.format_bytes(stack.total), **place}


def _build_limit_line(at: float) -> Note:
    line = {"color": VERMILLION, "width": 1.6, "dash": "dash"}
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": at, "x1": at, "line": line}


def _build_limit_note(limit: float, scale: float) -> Note:
    place = {"yref": "paper", "y": 1, "yanchor": "bottom", "xanchor": "right", "showarrow": False}
    return {"x": limit / scale, "text": f"limit {units.format_bytes(limit)}", **place}
