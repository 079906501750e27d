"""The samples behind the figures: every timed step, the warm-up apart, and the losses."""

import math
from collections.abc import Sequence
from statistics import median

from perfkit import units
from perfkit.analysis.model.suite import Analysis
from perfkit_reports.charts.frame import (
    ROWS_AXIS,
    Figure,
    Trace,
    figure,
    hover,
    row_labels,
    safe,
    time_scale,
)
from perfkit_reports.variants import variant_styles

_GOLDEN = 0.618033988749895  # multiples of it spread evenly, so dots of equal time do not hide each other


def step_times(analysis: Analysis) -> Figure | None:
    """One dot a timed step and one bar a process's median: the spread within processes and between them."""
    variants = [variant for variant in analysis.variants if any(variant.step_samples)]
    if not variants:
        return None
    styles = variant_styles(analysis)
    scale, unit = time_scale(max(max(run) for variant in variants for run in variant.step_samples if run))
    traces: list[Trace] = []
    for row, variant in enumerate(variants):
        style = styles[variant.name]
        runs = [run for run in variant.step_samples if run]
        lanes = len(runs)
        dots = [
            (
                value / scale,
                row + (lane + 0.15 + 0.7 * ((step * _GOLDEN) % 1.0)) / lanes * 0.62 - 0.31,
                lane,
                step,
                value,
            )
            for lane, run in enumerate(runs)
            for step, value in enumerate(run)
        ]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [round(x, 5) for x, *_ in dots],
                "y": [round(y, 3) for _, y, *_ in dots],
                "marker": {"color": style.colour, "size": 5, "opacity": 0.55},
                "hovertext": [
                    hover(variant.name, f"process {lane + 1}, step {step + 1}: {units.seconds(value)}")
                    for *_, lane, step, value in dots
                ],
                "hoverinfo": "text",
            }
        )
        waits = () if variant.loop is None else variant.loop.data_waits_s
        if waits:
            heights = [y for _, y, lane, *_ in dots if lane == 0]
            traces.append(_waits(variant.name, waits, heights, scale, style.colour))
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [median(run) / scale for run in runs],
                "y": [row + (lane + 0.5) / lanes * 0.62 - 0.31 for lane in range(lanes)],
                "marker": {
                    "color": style.colour,
                    "symbol": "line-ns",
                    "size": 14,
                    "line": {"width": 3, "color": style.colour},
                },
                "hovertext": [
                    hover(variant.name, f"process {lane + 1}: median {units.seconds(median(run))}")
                    for lane, run in enumerate(runs)
                ],
                "hoverinfo": "text",
            }
        )
    labels = row_labels([variant.name for variant in variants])
    for row, label in enumerate(labels):
        label |= {"y": row, "yshift": 18}
    return figure(
        traces,
        height=90 + 64 * len(variants),
        margin={"l": 4, "r": 12, "t": 30, "b": 52},
        annotations=labels,
        xaxis={"title": {"text": f"step time ({unit})"}, "rangemode": "tozero"},
        yaxis={**ROWS_AXIS, "type": "linear", "autorange": False, "range": [len(variants) - 0.55, -0.75]},
    )


def _waits(name: str, waits: Sequence[float], heights: Sequence[float], scale: float, colour: str) -> Trace:
    """A hollow dot a step, at the height of the step's own: how much of it was waiting for data."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [round(wait / scale, 5) for wait in waits],
        "y": [round(y, 3) for y in heights],
        "marker": {"color": colour, "symbol": "circle-open", "size": 5, "opacity": 0.8},
        "hovertext": [
            hover(name, f"step {step}: waited {units.seconds(wait)} for data") for step, wait in enumerate(waits, 1)
        ],
        "hoverinfo": "text",
    }


def warm_up(analysis: Analysis) -> Figure | None:
    """The steps before timing began, on a logarithmic scale since compiling happens in them."""
    variants = [variant for variant in analysis.variants if any(variant.warmup_samples)]
    if not variants:
        return None
    styles = variant_styles(analysis)
    traces: list[Trace] = []
    for variant in variants:
        style = styles[variant.name]
        for run in (run for run in variant.warmup_samples if run):
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": safe(variant.name, 28),
                    "x": list(range(1, len(run) + 1)),
                    "y": [round(value, 6) for value in run],
                    "line": {"color": style.colour, "dash": style.dash, "width": 1.4},
                    "marker": {"color": style.colour, "symbol": style.symbol, "size": 6},
                    "hovertext": [
                        hover(variant.name, f"warm-up step {step}: {units.seconds(value)}")
                        for step, value in enumerate(run, 1)
                    ],
                    "hoverinfo": "text",
                }
            )
    values = [value for variant in variants for run in variant.warmup_samples for value in run if value > 0]
    longest = max(len(run) for variant in variants for run in variant.warmup_samples)
    return figure(
        traces,
        margin={"l": 64, "r": 16, "t": 10, "b": 52},
        xaxis={"title": {"text": "warm-up step"}, "tickformat": "d", **_whole_ticks(longest)},
        yaxis={
            "title": {"text": "step time"},
            "type": "log",
            "tickvals": (ticks := _ticks(min(values), max(values))),
            "ticktext": [units.seconds(tick) for tick in ticks],
            "range": [math.log10(min(values)) - 0.15, math.log10(max(values)) + 0.15],
        },
    )


def _whole_ticks(count: int) -> dict[str, int]:
    """Ticks at whole numbers where there are few; else plotly's own, which are."""
    return {"tick0": 1, "dtick": 1} if count <= 10 else {}


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 ... around the values; powers of ten only where those would be too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    return [step * 10.0**decade for decade in decades for step in steps]


def losses(analysis: Analysis) -> Figure | None:
    """Training losses on the same data and seed, the baseline below the others."""
    variants = [variant for variant in analysis.variants if variant.losses]
    if not variants:
        return None
    styles = variant_styles(analysis)
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": safe(variant.name, 28),
            "x": list(range(1, len(variant.losses) + 1)),
            "y": list(variant.losses),
            "line": {
                "color": styles[variant.name].colour,
                "dash": styles[variant.name].dash,
                "width": 6 if variant.is_baseline else 1.6,
            },
            "opacity": 0.45 if variant.is_baseline else 1,
            "marker": {"color": styles[variant.name].colour, "symbol": styles[variant.name].symbol, "size": 7},
            "hovertext": [
                hover(variant.name, f"step {step}: loss {'not finite' if value is None else format(value, '.6g')}")
                for step, value in enumerate(variant.losses, 1)
            ],
            "hoverinfo": "text",
        }
        for variant in variants
    ]
    return figure(
        traces,
        margin={"l": 64, "r": 16, "t": 10, "b": 52},
        xaxis={
            "title": {"text": "step"},
            "tickformat": "d",
            **_whole_ticks(max(len(each.losses) for each in variants)),
        },
        yaxis={"title": {"text": "loss"}},
    )
