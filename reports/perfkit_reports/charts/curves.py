"""Values over steps, a line a run: the steps before timing began, and losses."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from perfkit.core import units
from perfkit_reports.charts.frame import (
    Trace,
    build_axis,
    build_figure,
    build_scatter,
    choose_time_scale,
    escape_text,
    format_hover,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import Style

_Describe = Callable[[int, float | None], str]


@dataclass(frozen=True)
class StepCurve:
    """A name with its values, a tuple a run, None where not finite; a `reference` is drawn broad, below the rest."""

    name: str
    style: Style
    runs: tuple[tuple[float | None, ...], ...]
    reference: bool = False


def build_warmup_chart(curves: Sequence[StepCurve]) -> Chart | None:
    """Seconds of steps on a logarithmic scale, since compiling happens in them. None without any step."""
    curves = [curve for curve in curves if any(curve.runs)]
    values = [value for curve in curves for run in curve.runs for value in run if value]
    if not values:
        return None
    low, high = min(values), max(values)
    ticks = _compute_ticks(low, high)
    yaxis = build_axis(
        "step time",
        type="log",
        tickvals=ticks,
        ticktext=[units.format_seconds(tick) for tick in ticks],
        range=[math.log10(low) - 0.15, math.log10(high) + 0.15],
    )

    def describe(step: int, value: float | None) -> str:
        return f"warm-up step {step}: {units.format_seconds(value or 0.0)}"

    options = {"id": "warm-up", "title": "Warm-up, not counted above", "label": "Warm-up steps"}
    return _build_chart(curves, describe, "warm-up step", yaxis, **options)


@dataclass(frozen=True)
class WatchedCurve:
    """A loop that was watched all the time: (step, median step time up to it in seconds)."""

    name: str
    style: Style
    points: Sequence[tuple[int, float]]


def build_step_time_chart(watched: Sequence[WatchedCurve]) -> Chart | None:
    """Step times over a whole training. None without any."""
    if not watched:
        return None
    scale, unit = choose_time_scale(max(seconds for curve in watched for _, seconds in curve.points))
    traces = [
        build_scatter(
            "lines",
            [step for step, _ in curve.points],
            [round(seconds / scale, 5) for _, seconds in curve.points],
            [
                format_hover(curve.name, f"up to step {step:,}: {units.format_seconds(seconds)}")
                for step, seconds in curve.points
            ],
            name=escape_text(curve.name, 28),
            line={"color": curve.style.color, "dash": curve.style.dash, "width": 1.6},
        )
        for curve in watched
    ]
    drawn = build_figure(
        traces, xaxis=build_axis("step", tickformat="d"), yaxis=build_axis(f"step time ({unit})", rangemode="tozero")
    )
    legend = [(curve.name, curve.style.color, curve.style.symbol) for curve in watched]
    label = "Step times of the attached loops"
    return Chart(id="watched", figure=drawn, height=380, legend=legend, title="Step times while attached", label=label)


def build_loss_chart(curves: Sequence[StepCurve]) -> Chart | None:
    """Training losses on the same data and seed. None without any."""
    curves = [curve for curve in curves if any(curve.runs)]
    if not curves:
        return None
    options = {"id": "losses", "title": "Losses over steps", "label": "Training losses"}
    return _build_chart(curves, _format_loss, "step", build_axis("loss"), **options)


def build_loss_time_chart(curves: Sequence[StepCurve], step_s: Sequence[float]) -> Chart | None:
    """Build the losses over the end time of each step, with steps of `step_s` per curve. None without any."""
    timed = [(curve, seconds) for curve, seconds in zip(curves, step_s, strict=True) if any(curve.runs)]
    if not timed:
        return None
    scale, unit = choose_time_scale(max(len(run) * seconds for curve, seconds in timed for run in curve.runs))
    traces = []
    for curve, seconds in timed:

        def describe(step: int, value: float | None, seconds: float = seconds) -> str:
            return f"{units.format_seconds(step * seconds)}, {_format_loss(step, value)}"

        for run in curve.runs:
            ends = [round(step * seconds / scale, 5) for step in range(1, len(run) + 1)]
            traces.append(_build_line(curve, run, describe, ends))
    drawn = build_figure(traces, xaxis=build_axis(f"time ({unit})", rangemode="tozero"), yaxis=build_axis("loss"))
    title, label = "Losses over time", "Training losses over time"
    return Chart(id="losses-time", figure=drawn, height=380, legend=_build_legend(curves), title=title, label=label)


def _format_loss(step: int, value: float | None) -> str:
    return f"step {step}: loss {'not finite' if value is None else format(value, '.6g')}"


def _build_line(curve: StepCurve, run: Sequence[float | None], describe: _Describe, xs: Sequence[float] = ()) -> Trace:
    """Build a line over `xs`, or over step numbers."""
    style = curve.style
    return build_scatter(
        "lines+markers",
        xs or range(1, len(run) + 1),
        [None if value is None else round(value, 6) for value in run],
        [format_hover(curve.name, describe(step, value)) for step, value in enumerate(run, 1)],
        name=escape_text(curve.name, 28),
        line={"color": style.color, "dash": style.dash, "width": 6 if curve.reference else 1.6},
        opacity=0.45 if curve.reference else 1,
        marker={"color": style.color, "symbol": style.symbol, "size": 6},
    )


def _build_chart(
    curves: Sequence[StepCurve], describe: _Describe, steps: str, yaxis: dict[str, Any], **said: Any
) -> Chart:
    """The curves over `steps`; `describe` gives the hover text of a step and its value."""
    longest = max(len(run) for curve in curves for run in curve.runs)
    # Whole numbers where there are few ticks; else plotly's own, which are.
    whole = {"tick0": 1, "dtick": 1} if longest <= 10 else {}
    traces = [_build_line(curve, run, describe) for curve in curves for run in curve.runs if run]
    drawn = build_figure(traces, xaxis=build_axis(steps, tickformat="d", **whole), yaxis=yaxis)
    return Chart(figure=drawn, height=380, legend=_build_legend(curves), **said)


def _build_legend(curves: Sequence[StepCurve]) -> list[tuple[str, str, str]]:
    return [(curve.name, curve.style.color, curve.style.symbol) for curve in curves]


def _compute_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 ... around the values; powers of ten only where those would be too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    return [step * 10.0**decade for decade in decades for step in steps]
