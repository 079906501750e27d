"""A series of runs: its points, its levels as steps, and where it changed."""

from typing import Any

from perfkit.check.history.result import ChangePoint, QuantitySeries, SeriesPoint
from perfkit.core.parse_units import format_amount, format_precise_amount
from perfkit_reports.cells import format_change
from perfkit_reports.charts.frame import (
    Figure,
    Trace,
    build_axis,
    build_figure,
    build_scatter,
    choose_byte_scale,
    choose_time_scale,
    escape_text,
    format_hover,
)
from perfkit_reports.document.blocks import Chart, Tags
from perfkit_reports.palette import BLUE, NEUTRAL, VERMILLION
from perfkit_reports.wording import format_plural

_TICKS = 3
_HEIGHT = 230
_RELATIVE = 0.0005  # a smaller change of a count is shown as a difference


def build_history_chart(series: QuantitySeries, name: str, *, tags: Tags, caption: str) -> Chart:
    """A small plot of one series."""
    of = f"{series.workload} {series.variant}"
    return Chart(
        id=name,
        title=f"{series.title}, {of}",
        figure=build_history_figure(series),
        label=f"{series.title} of {of} over {format_plural(len(series.points), 'run')}",
        height=_HEIGHT,
        tags=tags,
        caption=caption,
    )


def build_history_figure(series: QuantitySeries) -> Figure:
    """Runs stand side by side in their order: two of the same time do not hide each other."""
    scale, unit = _choose_scale(series)
    return build_figure(
        [*_build_levels(series, scale), _build_points(series, scale)],
        height=_HEIGHT,
        margin={"l": 56, "r": 34, "t": 26, "b": 30},
        xaxis=_build_runs_axis(series),
        yaxis=build_axis(unit, range=_compute_range(series, scale), fixedrange=True, nticks=5),
        shapes=[shape for change in series.changes for shape in _build_shapes(change)],
        annotations=[_build_label(change, series) for change in series.changes],
    )


def _choose_scale(series: QuantitySeries) -> tuple[float, str]:
    largest = max(abs(point.value) for point in series.points)
    if series.unit == "s":
        return choose_time_scale(largest)
    if series.unit == "bytes":
        return choose_byte_scale(largest)
    if series.unit == "FLOP":
        for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
            if largest >= factor:
                return factor, f"{prefix}FLOP"
    return 1.0, "" if series.unit == "1" else series.unit


def _compute_range(series: QuantitySeries, scale: float) -> list[float]:
    """Never so narrow that a per cent of noise looks like a mountain, with room for the labels."""
    values = [point.value / scale for point in series.points]
    low, high = min(values), max(values)
    room = max(0.14 * (high - low), 0.02 * max(abs(low), abs(high))) or 1.0
    return [low - room, high + room]


def _build_runs_axis(series: QuantitySeries) -> dict[str, Any]:
    count = len(series.points)
    places = sorted({round(place * (count - 1) / max(1, _TICKS - 1)) for place in range(_TICKS)})
    return {
        "range": [-0.7, count - 0.3],
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "tickvals": places,
        "ticktext": [series.points[place].time[:10] or f"run {place + 1}" for place in places],
        "tickangle": 0,
    }


def _build_points(series: QuantitySeries, scale: float) -> Trace:
    """Runs far off their level are crosses, runs with uncommitted changes open circles."""
    symbols = ["x" if point.is_outlier else "circle-open" if point.dirty else "circle" for point in series.points]
    return build_scatter(
        "markers",
        range(len(series.points)),
        [point.value / scale for point in series.points],
        [_format_hover(point, place, series) for place, point in enumerate(series.points)],
        marker={"color": BLUE, "size": 6, "symbol": symbols, "opacity": 0.85},
    )


def _format_hover(point: SeriesPoint, place: int, series: QuantitySeries) -> str:
    values = point.processes
    spread = ""
    if len(values) > 1:
        low, high = format_amount(min(values), series.unit), format_amount(max(values), series.unit)
        spread = f"{format_plural(len(values), 'process', 'processes')}, {low} to {high}"
    revision = point.revision or "revision not recorded"
    return format_hover(
        format_amount(point.value, series.unit),
        f"{revision}{' with uncommitted changes' if point.dirty else ''}",
        point.time[:16].replace("T", " "),
        spread,
        "far off its level" if point.is_outlier else "",
        f"run {place + 1}: {point.source}",
    )


def _build_levels(series: QuantitySeries, scale: float) -> list[Trace]:
    ends = [(level.first - 0.5, level.last + 0.5, level) for level in series.levels]
    band: dict[str, Any] = {"fill": "toself", "fillcolor": "#7d848f38", "line": {"width": 0}}
    bands = [
        build_scatter("lines", [left, right, right, left], [end / scale for end in (low, low, high, high)], **band)
        for left, right, level in ends
        if (low := level.low) is not None and (high := level.high) is not None
    ]
    xs = [x for left, right, _ in ends for x in (left, right, None)]
    ys = [y for *_, level in ends for y in (level.value / scale, level.value / scale, None)]
    return [*bands, build_scatter("lines", xs, ys, line={"color": NEUTRAL, "width": 2.5})]


def _build_shapes(change: ChangePoint) -> list[dict[str, Any]]:
    """A line where the level changed, and all places where it may have."""
    color = _choose_color(change)
    upright = {"yref": "paper", "y0": 0, "y1": 1}
    at, first, last = change.first_run - 0.5, change.earliest - 0.5, change.latest - 0.5
    line = {"type": "line", "x0": at, "x1": at, "line": {"color": color, "width": 1.5, "dash": "dash"}, **upright}
    look = {"fillcolor": color, "opacity": 0.12, "line": {"width": 0}, "layer": "below"}
    place = {"type": "rect", "x0": first, "x1": last, **look, **upright}
    return [line] if first == last else [place, line]


def _build_label(change: ChangePoint, series: QuantitySeries) -> dict[str, Any]:
    mark = "▲" if change.worse else "▼"
    text = (
        format_level_change(change, series.unit)
        if change.change is not None
        else f"from 0 to {format_amount(change.after.value, series.unit)}"
    )
    early = change.first_run < len(series.points) / 2
    return {
        "x": change.first_run - 0.5,
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "xanchor": "left" if early else "right",
        "text": escape_text(f"{mark} {text}"),
        "showarrow": False,
        "font": {"size": 12},
    }


def format_level_change(change: ChangePoint, unit: str) -> str:
    """`+3.1 %`; of a count that differs by less than 0.05 %, the difference: `+1 B`. Not for a change from zero."""
    relative, difference = change.change or 0.0, change.after.value - change.before.value
    if change.p_value is None and abs(relative) < _RELATIVE:
        return f"{'+' if difference > 0 else ''}{format_precise_amount(difference, unit)}"
    return format_change(relative)


def _choose_color(change: ChangePoint) -> str:
    return VERMILLION if change.worse else BLUE
