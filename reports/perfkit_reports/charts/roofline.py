"""The roofline: roofs, dots sized by time, and an arrow from one series' step to another's.

Dots of a series that is alone are colored by work type; of several, each has its own color.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from perfkit.analysis.model.step import OpRow
from perfkit.core import units
from perfkit.devices.catalog.unit_names import get_unit_name
from perfkit_reports.cells import format_count
from perfkit_reports.charts.frame import (
    Figure,
    Note,
    Trace,
    build_axis,
    build_figure,
    build_scatter,
    escape_text,
    format_hover,
)
from perfkit_reports.charts.roofline_plane import RooflinePlane, RooflineSeries, get_coordinates
from perfkit_reports.charts.roofs import DATASHEET, AxisLimits, Roof, build_roofs, compute_limits, is_placeable
from perfkit_reports.document.blocks import Chart, Layer
from perfkit_reports.names import shorten_kernel, shorten_middle
from perfkit_reports.palette import NEUTRAL, VERMILLION, WORK, WorkStyle, find_work_style
from perfkit_reports.selection import make_row_key

LEVEL = "level"
KINDS = ("kernel", LEVEL, "op", "module", "phase", "step")
FILLED = ("kernel", LEVEL, "op")
_LAYERS = {
    "kernel": "kernels",
    LEVEL: "by memory level",
    "op": "operations",
    "module": "modules △",
    "phase": "phases □",
    "step": "whole step",
}
_CLOSE = 0.7  # least distance of two bandwidths' logarithms, below which their names overlap
_COLORS = "Colors distinguish {}; if only one is shown, work types."
_SYMBOLS = {"module": "triangle-up-open", "phase": "square-open", "step": "star"}


def build_chart(plane: RooflinePlane, owners: str, name: str = "roofline") -> Chart | None:
    """Build the chart; None without points, or with a single one. `owners` names the series (`Traces`)."""
    frame = compute_limits(plane)
    if frame is None or len([point for point in plane.points if is_placeable(point)]) < 2:
        return None
    series = [one for one in plane.series if one.points]
    have, on = {point.kind for point in plane.points}, _get_shown_kinds(plane)
    layers = [
        Layer("series", one.name, one.name, one.shown, owners, one.style.color, one.style.symbol)
        for one in series
        if len(series) > 1
    ]
    marks = {"step": (NEUTRAL, _SYMBOLS["step"])}
    works = _list_works(series)
    layers += [Layer("work", work.name, work.name, True, "Work type", work.color, work.symbol) for work in works]
    names = dict.fromkeys(_name_roof(roof) for roof in build_roofs(plane))
    layers += [Layer("roof", roof, roof, True, "Roofs") for roof in names if len(names) > 1]
    layers += [
        Layer("kind", kind, _LAYERS[kind], kind in on, "Show", *marks.get(kind, ())) for kind in KINDS if kind in have
    ]
    return Chart(
        id=name,
        figure=_build_figure(plane, frame, alone=len(series) < 2),
        label="Roofline; the tables have the same figures",
        caption=" ".join(filter(None, ("" if works else _COLORS.format(owners.lower()), describe_omissions(plane)))),
        height=600,
        layers=layers,
    )


def _build_figure(plane: RooflinePlane, frame: AxisLimits, *, alone: bool) -> Figure:
    """Dots carry `meta` with their series and kind, roofs with their name; arrows the same as JSON in their `name`."""
    lines, on, scale = build_roofs(plane), _get_shown_kinds(plane), _compute_scale(plane)
    traces = [_build_roof(roof) for roof in lines]
    for place, series in enumerate(plane.series):  # alternate names of close steps: one below, the next above
        drawn = [point for point in series.points if is_placeable(point) and frame.includes_point(point)]
        for kind in KINDS:
            points = [point for point in drawn if point.kind == kind]
            for work, some in _group_by_work(points, alone=alone).items():
                trace = _build_dots(series, kind, work, some, scale, alone, bool(place % 2))
                traces.append({**trace, "visible": series.shown and kind in on})
    return build_figure(
        traces,
        margin={"l": 76, "r": 20, "t": 20, "b": 56},
        xaxis=_build_axis("arithmetic intensity (FLOP/byte)", frame.x0, frame.x1),
        yaxis=_build_axis("FLOP/s", frame.y0, frame.y1, tickformat="~s"),
        annotations=[_build_roof_label(roof, lines[:number]) for number, roof in enumerate(lines)]
        + _build_arrows(plane),
    )


def _list_works(series: list[RooflineSeries]) -> list[WorkStyle]:
    """The kinds of work among the dots of a series that is alone, in the palette's order."""
    present = {find_work_style(point) for point in series[0].points} if len(series) == 1 else set()
    return [work for work in WORK.values() if work in present]


def _group_by_work(points: list[OpRow], *, alone: bool) -> dict[WorkStyle | None, list[OpRow]]:
    groups: dict[WorkStyle | None, list[OpRow]] = {}
    for point in points:
        groups.setdefault(find_work_style(point) if alone else None, []).append(point)
    return groups


def _get_shown_kinds(plane: RooflinePlane) -> tuple[str, ...]:
    """The finest available kind, kernels or ops, and whole steps."""
    return ("kernel" if any(point.kind == "kernel" for point in plane.points) else "op", "step")


def describe_omissions(plane: RooflinePlane) -> str:
    """The share outside the axes, in words; empty where none is."""
    frame, finest = compute_limits(plane), _get_shown_kinds(plane)[0]
    outside = [0.0]
    for series in plane.series:
        dots = [point for point in series.points if point.kind == finest]
        outside.append(sum(point.share for point in dots if not (frame and frame.includes_point(point))))
    return (
        f"Ops with up to {units.format_percent(max(outside))} of a step lie outside the axes." if any(outside) else ""
    )


def _build_roof(roof: Roof) -> Trace:
    steps = 9  # interior points, so that hovering anywhere near the line names it
    xs = [roof.x0 * (roof.x1 / roof.x0) ** (step / steps) for step in range(steps + 1)]
    ys = [roof.y0 * (roof.y1 / roof.y0) ** (step / steps) for step in range(steps + 1)]
    measured = {"width": 2, "dash": "solid"} if roof.measured else {"width": 1.3, "dash": "dash"}
    text = format_hover(roof.label, roof.source)
    line = {"color": roof.color, **measured}
    return build_scatter("lines", xs, ys, line=line, hovertext=text, hoverinfo="text", meta={"roof": _name_roof(roof)})


def _name_roof(roof: Roof) -> str:
    """Of the measured and the datasheet's one together."""
    return f"{shorten_middle(roof.device, 24)}: {roof.name}" if roof.device else roof.name


def _build_dots(
    series: RooflineSeries,
    kind: str,
    work: WorkStyle | None,
    points: list[OpRow],
    scale: float,
    alone: bool,
    above: bool,
) -> Trace:
    """Build the dots. `alone` is true for a single series, whose dots need no series names; names lie `above`.

    They look as their kind of `work` does, without one as their series.
    """
    style = work or (replace(series.style, color=NEUTRAL) if alone else series.style)
    named = kind == "phase" or (kind == "step" and not alone)
    points = sorted(points, key=lambda point: -point.seconds)  # small dots last, on top of large ones
    filled = kind in FILLED
    edges = [VERMILLION if point.above_roof else "#ffffff" if filled else style.color for point in points]
    return build_scatter(
        "markers+text" if named else "markers",
        [get_coordinates(point)[0] for point in points],
        [get_coordinates(point)[1] for point in points],
        [_format_hover(series, point) for point in points],
        name=escape_text(f"{series.name}: {kind}"),
        meta={"series": series.name, "kind": kind, **({"work": work.name} if work else {})},
        customdata=[make_row_key(point) for point in points],
        text=[_format_label(series, point, alone) for point in points] if named else "",
        textposition="top center" if above else "bottom center",
        cliponaxis=True,
        marker={
            "color": style.color,
            "symbol": _SYMBOLS.get(kind, style.symbol),
            "size": [_compute_size(point, scale) for point in points],
            "opacity": 0.72 if filled else 1.0,
            "line": {"width": [2.5 if point.above_roof else 1 for point in points], "color": edges},
        },
    )


def _format_label(series: RooflineSeries, point: OpRow, alone: bool) -> str:
    parts = [] if alone else [shorten_middle(series.name, 24)]
    return escape_text(" ".join(parts + ([point.name] if point.kind == "phase" else [])), 40)


def _compute_scale(plane: RooflinePlane) -> float:
    """The pixels of a dot that takes the whole step; more where the work is a small part of it."""
    largest = max((point.share for point in plane.points if point.kind in FILLED), default=0.0)
    return max(72.0, 36.0 / math.sqrt(largest)) if largest > 0 else 72.0


def _compute_size(point: OpRow, scale: float) -> float:
    """Diameter in pixels: the dot's area is in proportion to its share of the step."""
    if point.kind in ("phase", "step"):
        return 15.0
    return round(max(5.0, min(52.0, scale * math.sqrt(max(0.0, point.share)))), 1)


def _format_hover(series: RooflineSeries, point: OpRow) -> str:
    gain = None if point.attainable_s is None else point.seconds - point.attainable_s
    intensity, rate = get_coordinates(point)
    return format_hover(
        f"{series.name}: {shorten_kernel(point.name)}",
        shorten_middle(point.shapes, 96),
        f"{units.format_seconds(point.seconds)} per step ({units.format_percent(point.share)}), "
        f"{format_count(point.calls)} {'call' if point.calls == 1 else 'calls'}",
        f"{units.format_flop_rate(rate)} at {units.format_significant(intensity)} FLOP/byte",
        f"{point.dtype}, {get_unit_name(point.unit, series.device)}",
        f"bound: {point.bound}" + (f" ({point.level})" if point.bound == "memory" and point.level != "memory" else ""),
        "" if gain is None else f"potential savings {units.format_seconds(max(0.0, gain))} per step",
        "above the roof" + (f": {point.efficiency_reason}" if point.efficiency_reason else "")
        if point.above_roof
        else "",
    )


def _build_axis(title: str, low: float, high: float, **style: Any) -> dict[str, Any]:
    ends = [math.log10(low), math.log10(high)]
    return build_axis(title, type="log", range=ends, dtick=1, minor={"showgrid": False}, **style)


def _build_roof_label(roof: Roof, others: Sequence[Roof]) -> Note:
    """Place the label along the roof: below its line if another lies close above, further on if one of `others` is
    parallel.

    The page turns those named `slope ...` to lie along their line, whose angle depends on the size of the window, and
    leaves out names of `several` devices on a small screen. Behind the bar is the name of the roof's switch.
    """
    parallel = sum(
        other.flat == roof.flat and abs(math.log(other.ceiling.value / roof.ceiling.value)) < _CLOSE
        for other in others
        if not roof.flat or other.below == roof.below
    )
    kind, along, anchor = (
        ("flat", max(1.0 - 0.4 * parallel, 0.2), {"xanchor": "right", "xshift": -2})
        if roof.flat
        else ("slope", 0.22 + 0.3 * parallel, {})
    )
    return {
        "name": f"{kind} {'below' if roof.below else 'above'}{' several' if roof.device else ''}|{_name_roof(roof)}",
        "text": escape_text(roof.label.removesuffix(DATASHEET), 72),  # which dashes say
        "showarrow": False,
        "font": {"size": 11},
        "yanchor": "top" if roof.below else "bottom",
        "x": math.log10(roof.x0) + along * math.log10(roof.x1 / roof.x0),
        "y": math.log10(roof.y0) + along * math.log10(roof.y1 / roof.y0),
        **anchor,
    }


def _build_arrows(plane: RooflinePlane) -> list[Note]:
    """Build arrows from the step of each series' origin to its own."""
    steps = {series.name: _find_whole_step(series) for series in plane.series}
    shape = {"text": "", "showarrow": True, "arrowhead": 2, "arrowwidth": 1.8, "standoff": 8, "startstandoff": 8}
    arrows = []
    for series in plane.series:
        origin, target = steps.get(series.origin), steps[series.name]
        if origin is None or target is None:
            continue
        (ax, ay), (x, y) = ([math.log10(value) for value in get_coordinates(step)] for step in (origin, target))
        place = {"x": x, "y": y, "ax": ax, "ay": ay, "axref": "x", "ayref": "y"}
        name = json.dumps({"series": series.name, "kind": "step"})
        arrows.append({"name": name, "visible": series.shown, "arrowcolor": series.style.color, **place, **shape})
    return arrows


def _find_whole_step(series: RooflineSeries) -> OpRow | None:
    """The point of the whole step; None where it has no place."""
    return next((point for point in series.points if point.kind == "step" and is_placeable(point)), None)
