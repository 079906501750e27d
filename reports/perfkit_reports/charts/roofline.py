"""The roofline: roofs, dots sized by time, and an arrow from one series' step to another's.

Dots of a series that is alone are coloured by kind of work; of several, each has its own colour.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from perfkit import units
from perfkit.analysis.model.step import OpRow
from perfkit.devices.unit_names import unit_name
from perfkit_reports.charts.frame import Figure, Note, Trace, axis, figure, hover, safe, scatter
from perfkit_reports.charts.plane import Plane, Series, coordinates
from perfkit_reports.charts.roofs import Limits, Roof, limits, placeable, roofs
from perfkit_reports.document.blocks import Chart, Layer
from perfkit_reports.names import middle, short_kernel
from perfkit_reports.palette import NEUTRAL, VERMILLION, WORK, Work, kind_of_work
from perfkit_reports.selection import key_of

LEVEL = "level"
KINDS = ("kernel", LEVEL, "op", "module", "phase", "step")
FILLED = ("kernel", LEVEL, "op")
_LAYERS = {
    "kernel": "kernels",
    LEVEL: "by level of memory",
    "op": "operations",
    "module": "modules △",
    "phase": "phases □",
    "step": "whole step",
}
_CLOSE = 0.25  # of the logarithm of two bandwidths, whose names would lie on each other
_COLOURS = "Colours are those of the {}; one alone is coloured by kind of work."
_SYMBOLS = {"module": "triangle-up-open", "phase": "square-open", "step": "star"}


def chart(plane: Plane, owners: str, name: str = "roofline") -> Chart | None:
    """None where there is nothing to see: no points, or one alone. `owners` are what series are (`Traces`)."""
    frame = limits(plane)
    if frame is None or len([point for point in plane.points if placeable(point)]) < 2:
        return None
    series = [each for each in plane.series if each.points]
    have, on = {point.kind for point in plane.points}, _shown_kinds(plane)
    layers = [
        Layer("series", each.name, each.name, each.shown, owners, each.style.colour, each.style.symbol)
        for each in series
        if len(series) > 1
    ]
    marks = {"step": (NEUTRAL, _SYMBOLS["step"])}
    works = _works(series)
    layers += [Layer("work", each.name, each.name, True, "Kind of work", each.colour, each.symbol) for each in works]
    layers += [
        Layer("kind", kind, _LAYERS[kind], kind in on, "Show", *marks.get(kind, ())) for kind in KINDS if kind in have
    ]
    return Chart(
        id=name,
        figure=_figure(plane, frame, alone=len(series) < 2),
        label="Roofline; the tables hold the same figures",
        caption=" ".join(filter(None, ("" if works else _COLOURS.format(owners.lower()), left_out(plane)))),
        height=600,
        layers=layers,
    )


def _figure(plane: Plane, frame: Limits, *, alone: bool) -> Figure:
    """Traces carry `meta` with their series and kind, arrows the same as JSON in their `name`."""
    lines, on, scale = roofs(plane), _shown_kinds(plane), _scale(plane)
    traces = [_roof(roof) for roof in lines]
    for place, series in enumerate(plane.series):  # names of steps that lie close: one below, the next above
        drawn = [point for point in series.points if placeable(point) and frame.includes_point(point)]
        for kind in KINDS:
            points = [point for point in drawn if point.kind == kind]
            for work, some in _by_work(points, alone=alone).items():
                trace = _dots(series, kind, work, some, scale, alone, bool(place % 2))
                traces.append({**trace, "visible": series.shown and kind in on})
    return figure(
        traces,
        margin={"l": 76, "r": 20, "t": 20, "b": 56},
        xaxis=_axis("arithmetic intensity (FLOP/byte)", frame.x0, frame.x1),
        yaxis=_axis("FLOP/s", frame.y0, frame.y1, tickformat="~s"),
        annotations=[_roof_label(roof, lines[:number]) for number, roof in enumerate(lines)] + _arrows(plane),
    )


def _works(series: list[Series]) -> list[Work]:
    """The kinds of work among the dots of a series that is alone, in the palette's order."""
    found = {kind_of_work(point) for point in series[0].points} if len(series) == 1 else set()
    return [work for work in WORK.values() if work in found]


def _by_work(points: list[OpRow], *, alone: bool) -> dict[Work | None, list[OpRow]]:
    groups: dict[Work | None, list[OpRow]] = {}
    for point in points:
        groups.setdefault(kind_of_work(point) if alone else None, []).append(point)
    return groups


def _shown_kinds(plane: Plane) -> tuple[str, ...]:
    """The finest of kernels and ops that there is, and whole steps."""
    return ("kernel" if any(point.kind == "kernel" for point in plane.points) else "op", "step")


def left_out(plane: Plane) -> str:
    """What lies outside the axes, in words; empty where nothing does."""
    frame, finest = limits(plane), _shown_kinds(plane)[0]
    outside = [0.0]
    for series in plane.series:
        dots = [point for point in series.points if point.kind == finest]
        outside.append(sum(point.share for point in dots if not (frame and frame.includes_point(point))))
    return f"Ops that take up to {units.percent(max(outside))} of a step lie outside the axes." if any(outside) else ""


def _roof(roof: Roof) -> Trace:
    steps = 9  # interior points, so that hovering anywhere near the line names it
    xs = [roof.x0 * (roof.x1 / roof.x0) ** (step / steps) for step in range(steps + 1)]
    ys = [roof.y0 * (roof.y1 / roof.y0) ** (step / steps) for step in range(steps + 1)]
    measured = {"width": 2, "dash": "solid"} if roof.measured else {"width": 1.3, "dash": "dash"}
    text = hover(roof.label, roof.source)
    return scatter("lines", xs, ys, line={"color": roof.colour, **measured}, hovertext=text, hoverinfo="text")


def _dots(
    series: Series, kind: str, work: Work | None, points: list[OpRow], scale: float, alone: bool, above: bool
) -> Trace:
    """`alone` says that there is no other series, whose dots would have to be told apart by name; names lie `above`.

    They look as their kind of `work` does, without one as their series.
    """
    style = work or (replace(series.style, colour=NEUTRAL) if alone else series.style)
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
        meta={"series": series.name, "kind": kind, **({"work": work.name} if work else {})},
        customdata=[key_of(point) for point in points],
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
        f"above the roof: {point.no_share}" if point.above_roof else "",
    )


def _axis(title: str, low: float, high: float, **style: Any) -> dict[str, Any]:
    ends = [math.log10(low), math.log10(high)]
    return axis(title, type="log", range=ends, dtick=1, minor={"showgrid": False}, **style)


def _roof_label(roof: Roof, others: Sequence[Roof]) -> Note:
    """Along the roof: below its line where another lies close above it, further on where one of `others` is as steep.

    The page turns those named `slope ...` to lie along their line, whose angle depends on the size of the window, and
    leaves out names of `several` devices on a small screen.
    """
    alike = sum(not other.flat and abs(math.log(other.ceiling.value / roof.ceiling.value)) < _CLOSE for other in others)
    kind, along, anchor = (
        ("flat", 1.0, {"xanchor": "right", "xshift": -2}) if roof.flat else ("slope", 0.22 + 0.3 * alike, {})
    )
    return {
        "name": f"{kind} {'below' if roof.below else 'above'}{' several' if roof.device else ''}",
        "text": safe(roof.label, 72),
        "showarrow": False,
        "font": {"size": 11},
        "yanchor": "top" if roof.below else "bottom",
        "x": math.log10(roof.x0) + along * math.log10(roof.x1 / roof.x0),
        "y": math.log10(roof.y0) + along * math.log10(roof.y1 / roof.y0),
        **anchor,
    }


def _arrows(plane: Plane) -> list[Note]:
    """From the step of each series' origin to its own."""
    steps = {series.name: _whole_step(series) for series in plane.series}
    shape = {"text": "", "showarrow": True, "arrowhead": 2, "arrowwidth": 1.8, "standoff": 8, "startstandoff": 8}
    arrows = []
    for series in plane.series:
        origin, target = steps.get(series.origin), steps[series.name]
        if origin is None or target is None:
            continue
        (ax, ay), (x, y) = ([math.log10(value) for value in coordinates(step)] for step in (origin, target))
        place = {"x": x, "y": y, "ax": ax, "ay": ay, "axref": "x", "ayref": "y"}
        name = json.dumps({"series": series.name, "kind": "step"})
        arrows.append({"name": name, "visible": series.shown, "arrowcolor": series.style.colour, **place, **shape})
    return arrows


def _whole_step(series: Series) -> OpRow | None:
    """Where the whole step lies; None where it has no place."""
    return next((point for point in series.points if point.kind == "step" and placeable(point)), None)
