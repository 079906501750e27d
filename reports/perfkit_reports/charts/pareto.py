"""Throughput against peak memory, with those that no other beats on both joined by a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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

_NAME = 28  # characters
# Pixels of the narrowest plot, of a letter and a line, and of a point: a name stands where it covers nothing.
_PLOT_WIDTH, _PLOT_HEIGHT = 330.0, 320.0
_LETTER, _LINE, _POINT = 6.4, 14.0, 13.0
_CAP = 4.0  # half the width of an interval's ends
# Where a name stands beside its point, with the shift of its center in its own widths and heights.
_SIDES = {
    "top center": (0.0, 1.0),
    "bottom center": (0.0, -1.0),
    "middle right": (0.5, 0.0),
    "middle left": (-0.5, 0.0),
    "top right": (0.5, 1.0),
    "top left": (-0.5, 1.0),
    "bottom right": (0.5, -1.0),
    "bottom left": (-0.5, -1.0),
}


class _Box(NamedTuple):
    """A rectangle in pixels: its center and its sides."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: "_Box") -> bool:
        is_beside = abs(self.x - other.x) >= (self.width + other.width) / 2
        return not is_beside and abs(self.y - other.y) < (self.height + other.height) / 2


@dataclass(frozen=True)
class ParetoPoint:
    """A name with its peak bytes and units per second; `low` and `high` are the interval of the latter.

    One that is not `valid` (it had no effect, or another loss) is hollow.
    """

    name: str
    bytes: float
    rate: float
    style: Style
    on_front: bool
    low: float | None = None
    high: float | None = None
    valid: bool = True
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
    sides = place_names(points)
    front = sorted((point.bytes / scale, point.rate) for point in points if point.on_front)
    traces = [
        build_scatter(
            "lines",
            [memory for memory, _ in front],
            [rate for _, rate in front],
            line={"color": NEUTRAL, "width": 1.5, "dash": "dot"},
        ),
        *(_build_dot(point, sides.get(point.name), scale) for point in points),
    ]
    return build_figure(
        traces,
        margin={"l": 76, "r": 28, "t": 24, "b": 52},
        xaxis=build_axis(f"peak memory ({unit})", range=_compute_range([point.bytes / scale for point in points])),
        yaxis=build_axis(rate_unit, range=_compute_range(_list_rates(points)), tickformat="~s"),
    )


def place_names(points: Sequence[ParetoPoint]) -> dict[str, str]:
    """Where names stand, by name: those of the front first, then of the fastest; of others without room nothing."""
    width = _compute_range([point.bytes for point in points])[1]
    height = _compute_range(_list_rates(points))[1]
    dots = {
        point.name: _Box(point.bytes / width * _PLOT_WIDTH, point.rate / height * _PLOT_HEIGHT, _POINT, _POINT)
        for point in points
    }
    taken = [*dots.values(), *(_build_bar_box(point, dots[point.name], height) for point in points)]
    sides: dict[str, str] = {}
    for point in sorted(points, key=lambda point: (not point.on_front, -point.rate)):
        for side in _SIDES:
            box = _build_name_box(_name_point(point), dots[point.name], side)
            if _is_inside(box) and not any(box.overlaps(other) for other in taken):
                sides[point.name] = side
                taken.append(box)
                break
    return sides


def _list_rates(points: Sequence[ParetoPoint]) -> list[float]:
    """The upper ends of the intervals."""
    return [point.rate if point.high is None else point.high for point in points]


def _build_bar_box(point: ParetoPoint, dot: _Box, height: float) -> _Box:
    """The interval of a point as drawn."""
    if point.low is None or point.high is None:
        return dot
    scale = _PLOT_HEIGHT / height
    return _Box(dot.x, (point.low + point.high) / 2 * scale, 2 * _CAP, (point.high - point.low) * scale)


def _name_point(point: ParetoPoint) -> str:
    return point.name if point.valid else f"{point.name} (not valid)"


def _build_name_box(name: str, dot: _Box, side: str) -> _Box:
    across, up = _SIDES[side]
    width = _LETTER * min(len(name), _NAME)
    return _Box(dot.x + across * (width + _POINT), dot.y + up * (_LINE + _POINT) / 2, width, _LINE)


def _is_inside(box: _Box) -> bool:
    return box.width / 2 <= box.x <= _PLOT_WIDTH - box.width / 2 + _POINT and box.y >= _LINE / 2


def _build_dot(point: ParetoPoint, side: str | None, scale: float) -> Trace:
    style = {"color": point.style.color, "symbol": f"{point.style.symbol}{'' if point.valid else '-open'}"}
    edge = {"width": 1, "color": "#ffffff"} if point.valid else {"width": 2}
    return build_scatter(
        "markers+text",
        [point.bytes / scale],
        [point.rate],
        [format_hover(point.name, *point.told)],
        name=escape_text(point.name),
        text=[escape_text(_name_point(point), _NAME) if side else ""],
        textposition=side or "top center",
        cliponaxis=False,
        error_y=_build_error_bar(point),
        marker={**style, "size": _POINT, "line": edge},
    )


def _build_error_bar(point: ParetoPoint) -> dict[str, Any]:
    if point.low is None or point.high is None:
        return {"visible": False}
    return {
        "type": "data",
        "array": [point.high - point.rate],
        "arrayminus": [point.rate - point.low],
        "thickness": 1.2,
        "width": _CAP,
    }


def _compute_range(values: list[float]) -> list[float]:
    """The axis range from zero, for honest distances, with room for labels above."""
    return [0.0, max(values) * 1.18]
