"""Bars to the right and to the left for all that made a step slower or faster; they add up to the whole change."""

from collections.abc import Sequence

from perfkit.analysis.difference.groups import TIME
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.step import OUTSIDE
from perfkit_reports.charts.frame import (
    Figure,
    build_axis,
    build_row_bars,
    build_row_figure,
    choose_time_scale,
    format_hover,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.names import shorten_kernel, shorten_middle
from perfkit_reports.palette import LESS, MORE, NEUTRAL, Fill
from perfkit_reports.wording import format_plural, format_signed_seconds

_OUTSIDE_OPS = "outside ops: idle time, overlap"
_SHOWN = 10

Part = tuple[str, float]  # name, change in seconds per step
SLOWER, FASTER, TOTAL = Fill(MORE, "/"), Fill(LESS), Fill(NEUTRAL, ".")


def build_chart(name: str, title: str, bars: Sequence[Part], total_s: float, label: str) -> Chart | None:
    """`bars` sum to the whole change of `total_s` seconds a step; None where nothing can be compared."""
    return Chart(id=name, title=title, figure=_build_figure(bars, total_s), label=label) if bars else None


def list_op_changes(difference: TraceDifference) -> list[Part]:
    """The largest changes, all others, and time outside ops; they sum to the total."""
    within = [row for row in difference.changes if row.phase != OUTSIDE]
    named = [(_format_name(row.name, row.phase, row.module), row.change_s) for row in within]
    return _limit_parts(named, difference, "other op", "other ops", _OUTSIDE_OPS)


def list_group_changes(difference: TraceDifference, by: str) -> list[Part]:
    """The changes by one grouping; parts of the step sum to it without a rest."""
    named = [(shorten_middle(group.name, 44), group.change_s) for group in difference.groups if group.grouping == by]
    rest = "" if by == TIME else _OUTSIDE_OPS
    return _limit_parts([part for part in named if part[1]], difference, f"other {by}", "", rest)


def _limit_parts(named: Sequence[Part], difference: TraceDifference, one: str, many: str, rest: str) -> list[Part]:
    if not named:
        return []
    ordered = sorted(named, key=lambda part: -abs(part[1]))
    shown, others = ordered[:_SHOWN], ordered[_SHOWN:]
    parts = [(f"{place}. {name}", change) for place, (name, change) in enumerate(shown, 1)]  # each its own place
    if others:
        parts.append((format_plural(len(others), one, many), sum(change for _, change in others)))
    remainder = compute_change(difference) - sum(change for _, change in parts)
    return [*parts, (rest, remainder)] if rest else parts


def compute_change(difference: TraceDifference) -> float:
    """Seconds that a step takes more than before."""
    return difference.after_step_s - difference.before_step_s


def _build_figure(parts: Sequence[Part], total_s: float) -> Figure:
    total = ("whole step", total_s)
    bars = [*parts, total]
    scale, unit = choose_time_scale(max(abs(seconds) for _, seconds in bars) or 1e-9)
    groups = (
        (SLOWER, [bar for bar in parts if bar[1] > 0]),
        (FASTER, [bar for bar in parts if bar[1] <= 0]),
        (TOTAL, [total]),
    )
    traces = [
        build_row_bars(
            fill,
            [
                (name, seconds / scale, format_hover(name, f"{format_signed_seconds(seconds)} per step"))
                for name, seconds in some
            ],
            text=[format_signed_seconds(seconds) for _, seconds in some],
            textposition="outside",
            cliponaxis=False,
        )
        for fill, some in groups
        if some
    ]
    ends = _compute_range([seconds / scale for _, seconds in bars])
    return build_row_figure(
        traces,
        [name for name, _ in bars],
        margin={"l": 18, "r": 24, "t": 10, "b": 52},
        xaxis=build_axis(f"change of the step ({unit})", range=ends, zeroline=True, fixedrange=True),
        barmode="overlay",
    )


def _compute_range(values: list[float]) -> list[float]:
    """Both sides of zero, each with room for its bars' labels."""
    room = 0.3 * max(map(abs, values))
    return [min(0.0, *values) - room, max(0.0, *values) + room]


def _format_name(name: str, phase: str, module: str) -> str:
    where = ", ".join(part for part in (phase, shorten_middle(module, 16)) if part)
    return shorten_kernel(name, 28) + (f" ({where})" if where else "")
