"""Throughput against peak memory, with the variants that no other beats on both joined by a line."""

from typing import Any

from perfkit.analysis.model.estimate import Estimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.record import Measurement
from perfkit_reports import cells
from perfkit_reports.charts.frame import Figure, Trace, byte_scale, figure, hover, safe
from perfkit_reports.palette import NEUTRAL
from perfkit_reports.variants import variant_styles


def placed(analysis: Analysis) -> list[tuple[Variant, float, float]]:
    """(variant, peak bytes, units per second) of every variant that has both."""
    return [
        (variant, variant.peak_allocated.value, variant.throughput.value)
        for variant in analysis.variants
        if isinstance(variant.peak_allocated, Measurement) and isinstance(variant.throughput, Estimate)
    ]


def pareto(analysis: Analysis) -> Figure | None:
    """None where no variant has both a throughput and a peak."""
    points = placed(analysis)
    if not points:
        return None
    styles = variant_styles(analysis)
    scale, unit = byte_scale(max(memory for _, memory, _ in points))
    front = sorted((memory / scale, rate) for variant, memory, rate in points if variant.name in analysis.pareto)
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
    for variant, memory, rate in points:
        style = styles[variant.name]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": safe(variant.name),
                "x": [memory / scale],
                "y": [rate],
                "text": [safe(variant.name, 28)],
                "textposition": "top center",
                "cliponaxis": False,
                "error_y": _error(variant),
                "marker": {
                    "color": style.colour,
                    "symbol": style.symbol,
                    "size": 13,
                    "line": {"width": 1, "color": "#ffffff"},
                },
                "hovertext": [_hover(variant, analysis)],
                "hoverinfo": "text",
            }
        )
    rate_unit = cells.throughput_unit(points[0][0])
    return figure(
        traces,
        margin={"l": 76, "r": 28, "t": 24, "b": 52},
        xaxis={
            "title": {"text": f"peak memory ({unit})"},
            "range": _range([memory / scale for _, memory, _ in points]),
        },
        yaxis={"title": {"text": safe(rate_unit)}, "range": _range([rate for *_, rate in points]), "tickformat": "~s"},
    )


def _hover(variant: Variant, analysis: Analysis) -> str:
    return hover(
        variant.name,
        cells.throughput(variant).text,
        f"{cells.peak_memory(variant).text} at the peak {cells.peak_memory(variant).detail}",
        f"step {cells.step_time(variant).text}, {cells.step_time(variant).detail}",
        "on the Pareto front" if variant.name in analysis.pareto else "another variant is better on both",
    )


def _error(variant: Variant) -> dict[str, Any]:
    """The interval of the step time, carried over to throughput."""
    step, rate = variant.step_time, variant.throughput
    if not isinstance(step, Estimate) or not isinstance(rate, Estimate) or step.low is None or step.high is None:
        return {"visible": False}
    return {
        "type": "data",
        "array": [rate.value * (step.value / step.low - 1)],
        "arrayminus": [rate.value * (1 - step.value / step.high)],
        "thickness": 1.2,
        "width": 4,
    }


def _range(values: list[float]) -> list[float]:
    """From zero, so that distances are honest, with room for labels above."""
    return [0.0, max(values) * 1.18]
