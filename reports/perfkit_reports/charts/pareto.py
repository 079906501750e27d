"""Throughput against peak memory, with those that no other beats on both joined by a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfkit_reports.charts.frame import Figure, Trace, byte_scale, figure, hover, safe
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import NEUTRAL, Style

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Point:
    """A name with its peak bytes and units per second; `low` and `high` are the interval of the latter."""

    name: str
    bytes: float
    rate: float
    style: Style
    on_front: bool
    low: float | None = None
    high: float | None = None
    told: tuple[str, ...] = ()


def chart(points: Sequence[Point], unit: str) -> Chart | None:
    """None without points; `unit` is that of the rates."""
    if not points:
        return None
    return Chart(
        id="pareto",
        figure=_figure(points, unit),
        label="Throughput against peak memory",
        height=460,
        print=lambda: _printed(points, unit),
    )


def _figure(points: Sequence[Point], rate_unit: str) -> Figure:
    scale, unit = byte_scale(max(point.bytes for point in points))
    front = sorted((point.bytes / scale, point.rate) for point in points if point.on_front)
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [memory for memory, _ in front],
            "y": [rate for _, rate in front],
            "line": {"color": NEUTRAL, "width": 1.5, "dash": "dot"},
            "hoverinfo": "skip",
        }
    ]
    traces += [
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": safe(point.name),
            "x": [point.bytes / scale],
            "y": [point.rate],
            "text": [safe(point.name, 28)],
            "textposition": "top center",
            "cliponaxis": False,
            "error_y": _error(point),
            "marker": {
                "color": point.style.colour,
                "symbol": point.style.symbol,
                "size": 13,
                "line": {"width": 1, "color": "#ffffff"},
            },
            "hovertext": [hover(point.name, *point.told)],
            "hoverinfo": "text",
        }
        for point in points
    ]
    return figure(
        traces,
        margin={"l": 76, "r": 28, "t": 24, "b": 52},
        xaxis={
            "title": {"text": f"peak memory ({unit})"},
            "range": _range([point.bytes / scale for point in points]),
        },
        yaxis={
            "title": {"text": safe(rate_unit)},
            "range": _range([point.rate for point in points]),
            "tickformat": "~s",
        },
    )


def _error(point: Point) -> dict[str, Any]:
    if point.low is None or point.high is None:
        return {"visible": False}
    return {
        "type": "data",
        "array": [point.high - point.rate],
        "arrayminus": [point.rate - point.low],
        "thickness": 1.2,
        "width": 4,
    }


def _range(values: list[float]) -> list[float]:
    """From zero, so that distances are honest, with room for labels above."""
    return [0.0, max(values) * 1.18]


def _printed(points: Sequence[Point], rate_unit: str) -> "matplotlib.figure.Figure":
    from perfkit_reports.charts.canvas import plain, plot

    printed, axes = plot(5.0)
    scale, unit = byte_scale(max(point.bytes for point in points))
    front = sorted((point.bytes / scale, point.rate) for point in points if point.on_front)
    axes.plot([memory for memory, _ in front], [rate for _, rate in front], color=NEUTRAL, linestyle=":", zorder=1)
    for point in points:
        place = (point.bytes / scale, point.rate)
        axes.scatter(*place, color=point.style.colour, marker=point.style.marker, s=80, zorder=2)
        axes.annotate(plain(point.name), place, xytext=(0, 8), textcoords="offset points", ha="center", fontsize=9)
    axes.set_xlim(*_range([point.bytes / scale for point in points]))
    axes.set_ylim(*_range([point.rate for point in points]))
    axes.set_xlabel(f"peak memory ({unit})")
    axes.set_ylabel(plain(rate_unit))
    return printed
