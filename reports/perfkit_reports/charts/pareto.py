"""Throughput against peak memory, with those that no other beats on both joined by a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perfkit_reports.charts.frame import (
    Figure,
    Trace,
    build_axis,
    build_figure,
    build_scatter,
    choose_byte_scale,
    escape_text,
    format_hover,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.document.weight import Weight
from perfkit_reports.palette import NEUTRAL, Style

# Of more points only those are named whose names have room: a name takes such a part of the chart's sides.
ALL_NAMED = 12
_NAME_WIDTH, _NAME_HEIGHT = 0.2, 0.06


@dataclass(frozen=True)
class ParetoPoint:
    """A name with its peak bytes and units per second; `low` and `high` are the interval of the latter."""

    name: str
    bytes: float
    rate: float
    style: Style
    on_front: bool
    low: float | None = None
    high: float | None = None
    told: tuple[str, ...] = ()


def build_chart(points: Sequence[ParetoPoint], unit: str) -> Chart | None:
    """Build the chart; None without points; `unit` is the unit of the rates."""
    if not points:
        return None
    return Chart(
        id="pareto",
        figure=_build_figure(points, unit),
        label="Throughput against peak memory",
        weight=Weight.BRIEF,
        height=400,
    )


def _build_figure(points: Sequence[ParetoPoint], rate_unit: str) -> Figure:
    scale, unit = choose_byte_scale(max(point.bytes for point in points))
    named = _select_named(points)
    front = sorted((point.bytes / scale, point.rate) for point in points if point.on_front)
    traces = [
        build_scatter(
            "lines",
            [memory for memory, _ in front],
            [rate for _, rate in front],
            line={"color": NEUTRAL, "width": 1.5, "dash": "dot"},
        ),
        *(
            _build_dot(point, side, scale, named=point in named)
            for point, side in zip(points, _choose_sides(points), strict=True)
        ),
    ]
    return build_figure(
        traces,
        margin={"l": 76, "r": 28, "t": 24, "b": 52},
        xaxis=build_axis(f"peak memory ({unit})", range=_compute_range([point.bytes / scale for point in points])),
        yaxis=build_axis(rate_unit, range=_compute_range([point.rate for point in points]), tickformat="~s"),
    )


def _select_named(points: Sequence[ParetoPoint]) -> list[ParetoPoint]:
    """Select the points to name: the front first, then the fastest, without overlaps."""
    if len(points) <= ALL_NAMED:
        return list(points)
    width, height = (_compute_range([getattr(point, what) for point in points])[1] for what in ("bytes", "rate"))
    named: list[ParetoPoint] = []
    for point in sorted(points, key=lambda point: (not point.on_front, -point.rate)):
        if all(
            abs(point.bytes - other.bytes) > _NAME_WIDTH * width or abs(point.rate - other.rate) > _NAME_HEIGHT * height
            for other in named
        ):
            named.append(point)
    return named


def _choose_sides(points: Sequence[ParetoPoint]) -> list[str]:
    """Where the name of each point stands: above, or below where another point or name is above."""
    width, height = (_compute_range([getattr(point, what) for point in points])[1] for what in ("bytes", "rate"))
    dots = [(point.bytes / width, point.rate / height) for point in points]
    taken: list[tuple[float, float]] = []
    sides = []
    for x, y in dots:
        places = {
            "top center": (x, y + _NAME_HEIGHT),
            "bottom center": (x, y - _NAME_HEIGHT),
        }
        others = [*taken, *(dot for dot in dots if dot != (x, y))]
        free = [side for side, place in places.items() if not any(_is_near(place, other) for other in others)]
        sides.append(free[0] if free else "top center")
        taken.append(places[sides[-1]])
    return sides


def _is_near(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return abs(one[0] - other[0]) < _NAME_WIDTH and abs(one[1] - other[1]) < _NAME_HEIGHT


def _build_dot(point: ParetoPoint, side: str, scale: float, *, named: bool) -> Trace:
    style = {"color": point.style.color, "symbol": point.style.symbol}
    return build_scatter(
        "markers+text",
        [point.bytes / scale],
        [point.rate],
        [format_hover(point.name, *point.told)],
        name=escape_text(point.name),
        text=[escape_text(point.name, 28) if named else ""],
        textposition=side,
        cliponaxis=False,
        error_y=_build_error_bar(point),
        marker={**style, "size": 13, "line": {"width": 1, "color": "#ffffff"}},
    )


def _build_error_bar(point: ParetoPoint) -> dict[str, Any]:
    if point.low is None or point.high is None:
        return {"visible": False}
    return {
        "type": "data",
        "array": [point.high - point.rate],
        "arrayminus": [point.rate - point.low],
        "thickness": 1.2,
        "width": 4,
    }


def _compute_range(values: list[float]) -> list[float]:
    """The axis range from zero, for honest distances, with room for labels above."""
    return [0.0, max(values) * 1.18]
