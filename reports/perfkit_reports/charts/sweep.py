"""Time and memory of a token or sample over a size that was swept."""

from collections.abc import Callable

from perfkit.analysis.model.scaling import Sweep, SweepPoint
from perfkit.core import units
from perfkit_reports.charts.frame import (
    build_axis,
    build_figure,
    build_scatter,
    choose_byte_scale,
    choose_time_scale,
    format_hover,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import BLUE, NEUTRAL, ORANGE

_HEIGHT = 340


def build_time_chart(sweep: Sweep, name: str) -> Chart:
    """Its time, the break marked by a line upwards."""
    scale, unit = choose_time_scale(max(point.unit_s for point in sweep.points))

    def describe(point: SweepPoint) -> str:
        return f"{units.format_seconds(point.unit_s)} per {sweep.unit}, step {units.format_seconds(point.step_s)}"

    return _build_chart(sweep, f"{name}-time", "Time", lambda point: point.unit_s / scale, unit, describe, BLUE)


def build_memory_chart(sweep: Sweep, name: str) -> Chart | None:
    """Peak memory over the units of a step. None where no peak is known."""
    known = [point.unit_bytes for point in sweep.points if point.unit_bytes is not None]
    if not known:
        return None
    scale, unit = choose_byte_scale(max(known))

    def describe(point: SweepPoint) -> str:
        peak = units.format_bytes(point.peak_bytes or 0)
        return f"{units.format_bytes(point.unit_bytes or 0)} per {sweep.unit}, peak {peak}"

    def value(point: SweepPoint) -> float | None:
        return None if point.unit_bytes is None else point.unit_bytes / scale

    return _build_chart(sweep, f"{name}-memory", "Peak memory", value, unit, describe, ORANGE)


def _build_chart(
    sweep: Sweep,
    name: str,
    what: str,
    value: Callable[[SweepPoint], float | None],
    unit: str,
    describe: Callable[[SweepPoint], str],
    color: str,
) -> Chart:
    sizes = [point.value for point in sweep.points]
    curve = build_scatter(
        "lines+markers",
        sizes,
        [value(point) for point in sweep.points],
        [format_hover(point.variant, describe(point)) for point in sweep.points],
        line={"color": color, "width": 1.8},
        marker={"color": color, "size": 8},
    )
    line = {"color": NEUTRAL, "width": 1.2, "dash": "dot"}
    at = {"type": "line", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "line": line}
    marks = [] if sweep.saturates_at is None else [{**at, "x0": sweep.saturates_at, "x1": sweep.saturates_at}]
    title = f"{what} per {sweep.unit}"
    ticks = [f"{size:g}" for size in sizes]
    drawn = build_figure(
        [curve],
        xaxis=build_axis(f"{sweep.technique} {sweep.parameter}", type="log", tickvals=sizes, ticktext=ticks),
        yaxis=build_axis(f"{title} ({unit})", rangemode="tozero"),
        shapes=marks,
    )
    return Chart(id=name, figure=drawn, height=_HEIGHT, title=title, label=f"{title} over {sweep.variant}")
