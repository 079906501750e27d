"""Trials of a search: step time against peak memory, and the path of what was accepted."""

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit_reports.charts.frame import (
    build_axis,
    build_figure,
    build_scatter,
    choose_byte_scale,
    choose_time_scale,
    escape_text,
    format_hover,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.document.weight import Weight
from perfkit_reports.palette import BLUE, NEUTRAL, SKY, VERMILLION, Style

# By what became of a trial: the path, other improvements, what is not better, and what does not count.
ACCEPTED = Style(BLUE, "circle", "solid")
IMPROVES = Style(SKY, "diamond", "solid")
NO_BETTER = Style(NEUTRAL, "square", "solid")
EXCLUDED = Style(VERMILLION, "triangle-down", "solid")


@dataclass(frozen=True)
class SearchPoint:
    """A trial: peak bytes and seconds per step, its look and what its tooltip says. Its name stands on the
    given `side` of it; "" for none."""

    name: str
    bytes: float
    seconds: float
    style: Style
    side: str = ""
    told: tuple[str, ...] = ()


def build_chart(
    points: Sequence[SearchPoint], path: Sequence[SearchPoint], legend: Sequence[tuple[str, Style]]
) -> Chart:
    """The chart of trials; `path` are the baseline and the accepted ones in order, joined by a line."""
    byte_scale, byte_unit = choose_byte_scale(max(point.bytes for point in points))
    time_scale, time_unit = choose_time_scale(max(point.seconds for point in points))
    traces = [
        build_scatter(
            "lines",
            [point.bytes / byte_scale for point in path],
            [point.seconds / time_scale for point in path],
            line={"color": BLUE, "width": 1.5, "dash": "dot"},
        ),
        *(
            build_scatter(
                "markers+text",
                [point.bytes / byte_scale],
                [point.seconds / time_scale],
                [format_hover(point.name, *point.told)],
                name=escape_text(point.name),
                text=[escape_text(point.name, 28) if point.side else ""],
                textposition=point.side or "top center",
                cliponaxis=False,
                marker={"color": point.style.color, "symbol": point.style.symbol, "size": 12},
            )
            for point in points
        ),
    ]
    figure = build_figure(
        traces,
        margin={"l": 76, "r": 28, "t": 24, "b": 52},
        xaxis=build_axis(f"peak memory ({byte_unit})", range=[0.0, 1.18 * max(p.bytes for p in points) / byte_scale]),
        yaxis=build_axis(f"step time ({time_unit})", range=[0.0, 1.18 * max(p.seconds for p in points) / time_scale]),
    )
    return Chart(
        id="search-path",
        title="Trials",
        figure=figure,
        label="Step time of each trial against its peak memory",
        legend=[(name, style.color, style.symbol) for name, style in legend],
        weight=Weight.BRIEF,
        height=400,
    )
