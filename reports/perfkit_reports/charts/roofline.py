"""The roofline: roofs, dots sized by time, and an arrow from one series' step to another's."""

import json
import math
from typing import Any

from perfkit import units
from perfkit.analysis.model.step import OpRow
from perfkit.devices.unit_names import unit_name
from perfkit_reports.charts.frame import Figure, Trace, axis, figure, hover, safe, scatter
from perfkit_reports.charts.plane import Plane, Series, coordinates
from perfkit_reports.charts.roofs import Roof, limits, placeable, roofs
from perfkit_reports.document.blocks import Chart, Layer
from perfkit_reports.names import middle, short_kernel
from perfkit_reports.palette import VERMILLION

LEVEL = "level"
KINDS = ("kernel", LEVEL, "op", "module", "phase", "step")
FILLED = ("kernel", LEVEL, "op")
_LAYERS = {
    "kernel": "kernels",
    LEVEL: "by level of memory",
    "op": "operations",
    "module": "modules △",
    "phase": "phases □",
    "step": "whole step ★",
}
_SYMBOLS = {"module": "triangle-up-open", "phase": "square-open", "step": "star"}


def chart(plane: Plane, owners: str, name: str = "roofline") -> Chart | None:
    """None where there is nothing to see: no points, or one alone. `owners` are what series are (`Traces`)."""
    figure = roofline(plane)
    if figure is None or len([point for point in plane.points if placeable(point)]) < 2:
        return None
    series = [each for each in plane.series if each.points]
    look = {each.name: each.style for each in series}
    layers = [
        Layer("series", each.name, each.name, each.shown, owners, look[each.name].colour, look[each.name].symbol)
        for each in series
        if len(series) > 1
    ]
    layers += [Layer("kind", kind, _LAYERS[kind], on, "Show") for kind, on in kinds(plane)]
    return Chart(
        id=name,
        figure=figure,
        label="Roofline; the tables hold the same figures",
        caption=left_out(plane),
        height=600,
        layers=layers,
    )


def roofline(plane: Plane) -> Figure | None:
    """None without points. Traces carry `meta` with their series and kind, arrows the same as JSON in their `name`."""
    frame = limits(plane)
    if frame is None or not plane.points:
        return None
    lines = roofs(plane)
    traces: list[Trace] = [_roof(roof) for roof in lines]
    on = shown_kinds(plane)
    scale = _scale(plane)
    alone = len([series for series in plane.series if series.points]) < 2
    for place, series in enumerate(plane.series):  # names of steps that lie close: one below, the next above
        for kind in KINDS:
            points = [point for point in series.points if point.kind == kind and placeable(point)]
            points = [point for point in points if frame.contain(point)]
            if points:
                trace = _dots(series, kind, points, scale, alone, bool(place % 2))
                trace["visible"] = series.shown and kind in on
                traces.append(trace)
    return figure(
        traces,
        margin={"l": 76, "r": 20, "t": 20, "b": 56},
        xaxis=_axis("arithmetic intensity (FLOP/byte)", frame.x0, frame.x1),
        yaxis={**_axis("FLOP/s", frame.y0, frame.y1), "tickformat": "~s"},
        annotations=_roof_labels(lines) + _arrows(plane),
    )


def kinds(plane: Plane) -> list[tuple[str, bool]]:
    """(kind, is it on at first) of the layers that have points."""
    have = {point.kind for point in plane.points}
    on = shown_kinds(plane)
    return [(kind, kind in on) for kind in KINDS if kind in have]


def shown_kinds(plane: Plane) -> tuple[str, ...]:
    """The finest of kernels and ops that there is, and whole steps."""
    have = {point.kind for point in plane.points}
    return ("kernel" if "kernel" in have else "op", "step")


def left_out(plane: Plane) -> str:
    """What lies outside the axes, in words; empty where nothing does."""
    frame = limits(plane)
    finest = shown_kinds(plane)[0]
    outside = [0.0]
    for series in plane.series:
        dots = [point for point in series.points if point.kind == finest]
        outside.append(sum(point.share for point in dots if not (frame and frame.contain(point))))
    return f"Ops that take up to {units.percent(max(outside))} of a step lie outside the axes." if any(outside) else ""


def _roof(roof: Roof) -> Trace:
    steps = 9  # interior points, so that hovering anywhere near the line names it
    xs = [roof.x0 * (roof.x1 / roof.x0) ** (step / steps) for step in range(steps + 1)]
    ys = [roof.y0 * (roof.y1 / roof.y0) ** (step / steps) for step in range(steps + 1)]
    measured = {"width": 2, "dash": "solid"} if roof.measured else {"width": 1.3, "dash": "dash"}
    text = hover(roof.label, roof.source)
    return scatter("lines", xs, ys, line={"color": roof.colour, **measured}, hovertext=text, hoverinfo="text")


def _dots(series: Series, kind: str, points: list[OpRow], scale: float, alone: bool, above: bool) -> Trace:
    """`alone` says that there is no other series, whose dots would have to be told apart by name; names lie `above`."""
    style = series.style
    named = kind == "phase" or (kind == "step" and not alone)
    points = sorted(points, key=lambda point: -point.seconds)  # small dots last, on top of large ones
    filled = kind in FILLED
    edges = [VERMILLION if point.above_roof else "#ffffff" if filled else style.colour for point in points]
    return scatter(
        "markers+text" if named else "markers",
        [coordinates(point)[0] for point in points],
        [coordinates(point)[1] for point in points],
        [_hover(series, point) for point in points],
        name=safe(f"{series.name}: {kind}"),
        meta={"series": series.name, "kind": kind},
        text=[_label(series, point, alone) for point in points] if named else "",
        textposition="top center" if above else "bottom center",
        cliponaxis=True,
        marker={
            "color": style.colour,
            "symbol": _SYMBOLS.get(kind, style.symbol),
            "size": [_size(point, scale) for point in points],
            "opacity": 0.72 if filled else 1.0,
            "line": {"width": [2.5 if point.above_roof else 1 for point in points], "color": edges},
        },
    )


def _label(series: Series, point: OpRow, alone: bool) -> str:
    parts = [] if alone else [middle(series.name, 24)]
    return safe(" ".join(parts + ([point.name] if point.kind == "phase" else [])), 40)


def _scale(plane: Plane) -> float:
    """Pixels of a dot that takes all of the step; more where work is so small a part of it that none would show."""
    largest = max((point.share for point in plane.points if point.kind in FILLED), default=0.0)
    return max(72.0, 36.0 / math.sqrt(largest)) if largest > 0 else 72.0


def _size(point: OpRow, scale: float) -> float:
    """Diameter in pixels: the dot's area is in proportion to its share of the step."""
    if point.kind in ("phase", "step"):
        return 15.0
    return round(max(5.0, min(52.0, scale * math.sqrt(max(0.0, point.share)))), 1)


def _hover(series: Series, point: OpRow) -> str:
    gain = None if point.attainable_s is None else point.seconds - point.attainable_s
    return hover(
        f"{series.name}: {short_kernel(point.name)}",
        middle(point.shapes, 96),
        f"{units.seconds(point.seconds)} a step ({units.percent(point.share)}), {units.significant(point.calls)} calls",
        f"{units.flops_per_s(coordinates(point)[1])} at {units.significant(coordinates(point)[0])} FLOP/byte",
        f"{point.dtype}, {unit_name(point.unit, series.device)}",
        f"bound by {point.bound}" + (f" ({point.level})" if point.bound == "memory" else ""),
        "" if gain is None else f"reaching the roof would save {units.seconds(max(0.0, gain))} a step",
        "above the roof: the model of its cost must be wrong" if point.above_roof else "",
    )


def _axis(title: str, low: float, high: float) -> dict[str, Any]:
    ends = [math.log10(low), math.log10(high)]
    return axis(title, type="log", range=ends, dtick=1, minor={"showgrid": False})


def _roof_labels(lines: list[Roof]) -> list[dict[str, Any]]:
    """A label along each roof: below its line where another lies close above it.

    The page turns those named `slope ...` to lie along their line, whose angle depends on the size of the window, and
    leaves out names of `several` devices on a small screen.
    """
    labels = []
    for roof in lines:
        text = safe(roof.label, 72)
        place = ("below" if roof.below else "above") + (" several" if roof.device else "")
        label = {
            "text": text,
            "showarrow": False,
            "font": {"size": 11},
            "yanchor": "top" if roof.below else "bottom",
        }
        if roof.flat:
            label |= {
                "x": math.log10(roof.x1),
                "y": math.log10(roof.y1),
                "xanchor": "right",
                "xshift": -2,
                "name": f"flat {place}",
            }
        else:
            along = 0.22
            label |= {
                "x": math.log10(roof.x0) + along * math.log10(roof.x1 / roof.x0),
                "y": math.log10(roof.y0) + along * math.log10(roof.y1 / roof.y0),
                "name": f"slope {place}",
            }
        labels.append(label)
    return labels


def _arrows(plane: Plane) -> list[dict[str, Any]]:
    """From the step of each series' origin to its own."""
    steps = {series.name: whole_step(series) for series in plane.series}
    arrows = []
    for series in plane.series:
        origin, target = steps.get(series.origin), steps[series.name]
        if origin is None or target is None:
            continue
        arrows.append(
            {
                "name": json.dumps({"series": series.name, "kind": "step"}),
                "visible": series.shown,
                "x": math.log10(coordinates(target)[0]),
                "y": math.log10(coordinates(target)[1]),
                "ax": math.log10(coordinates(origin)[0]),
                "ay": math.log10(coordinates(origin)[1]),
                "axref": "x",
                "ayref": "y",
                "text": "",
                "showarrow": True,
                "arrowhead": 2,
                "arrowwidth": 1.8,
                "arrowcolor": series.style.colour,
                "standoff": 8,
                "startstandoff": 8,
            }
        )
    return arrows


def whole_step(series: Series) -> OpRow | None:
    """Where the whole step lies; None where it has no place."""
    return next((point for point in series.points if point.kind == "step" and placeable(point)), None)
