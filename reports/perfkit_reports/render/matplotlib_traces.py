"""Draws static bars, lines, areas, dots and their texts from traces in plotly's schema."""

import html
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation

from perfkit_reports.charts.frame import Trace

POINT = 0.72  # points per pixel at 100 pixels per inch
TEXT = 12  # pixels
DPI = 120
_LETTER = 0.6  # upper bound of the mean letter width, relative to the font size
_INK = "#33373d"

MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "cross": "P",
    "triangle-down": "v",
    "pentagon": "p",
    "star": "*",
    "hexagon": "h",
    "x": "X",
    "line-ns": "|",
}
DASHES: dict[str, Any] = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (9, 4))}
_STEPS: dict[str, Any] = {"linear": None, "hv": "post"}


@dataclass(frozen=True)
class Pane:
    """Axes of traces that share a y axis. Categories are at 0, 1, 2 ...; `ends` are the ends of stacks."""

    axes: Axes
    x: dict[str, Any]
    y: dict[str, Any]
    columns: dict[Any, float]
    rows: dict[Any, float]
    ends: dict[float, float] = field(default_factory=lambda: defaultdict(float))

    def place_xs(self, values: Sequence[Any]) -> list[float]:
        return [math.nan if value is None else self.columns.get(value, value) for value in values]

    def place_ys(self, values: Sequence[Any]) -> list[float]:
        return [math.nan if value is None else self.rows.get(value, value) for value in values]

    def stack_amounts(self, places: Sequence[float], amounts: Sequence[float]) -> list[float]:
        """Bases of amounts that are added to the stacks at `places`."""
        starts = [self.ends[place] for place in places]
        self.ends.update((place, at + amount) for place, at, amount in zip(places, starts, amounts, strict=True))
        return starts


def _draw_bars(pane: Pane, trace: Trace, layout: dict[str, Any], order: float) -> None:
    flat = trace.get("orientation") == "h"
    places, lengths = (pane.place_ys(trace["y"]), trace["x"]) if flat else (pane.place_xs(trace["x"]), trace["y"])
    half = trace.get("width", 1 - layout.get("bargap", 0.2)) / 2
    base = trace.get("base", 0)
    starts = base if isinstance(base, list) else [base] * len(places)
    if layout.get("barmode") == "stack":
        starts = pane.stack_amounts(places, lengths)
    bars = [(place, start, start + length) for place, start, length in zip(places, starts, lengths, strict=True)]
    corners = [
        [(start, place - half), (end, place - half), (end, place + half), (start, place + half)]
        for place, start, end in bars
    ]
    marker = trace["marker"]
    edge = marker.get("line", {"color": "white", "width": 0.5})
    pane.axes.add_collection(
        PolyCollection(
            corners if flat else [[(x, y) for y, x in four] for four in corners],
            facecolors=marker["color"],
            hatch=marker.get("pattern", {}).get("shape", "") * 3,
            edgecolors=edge.get("color", "none"),
            linewidths=edge["width"] * POINT,
            antialiaseds=edge["width"] > 0,  # no seams between the cells of a map
            zorder=2 + order,
        )
    )
    pane.axes.autoscale_view()
    font = trace.get("insidetextfont", {}) | trace.get("textfont", {})
    for bar, fill, text in zip(bars, _repeat_value(marker["color"], len(bars)), trace.get("text", ()), strict=False):
        _BAR_TEXTS[trace["textposition"]](pane.axes, strip_markup(text), fill, font, *bar)


def _write_inside(
    axes: Axes, text: str, fill: str, font: dict[str, Any], place: float, start: float, end: float
) -> None:
    """Centered in a bar if there is room, in black or white by contrast."""
    size = font.get("size", TEXT) * POINT
    (x, _), (right, _) = axes.transData.transform(((start, place), (end, place)))
    if (right - x) * 72 < _LETTER * size * len(text) * DPI:
        return
    red, green, blue = to_rgb(fill)
    ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.45 else "white"
    weight = "bold" if font.get("weight", 400) > 500 else "normal"
    artist = axes.text((start + end) / 2, place, text, ha="center", va="center", size=size, weight=weight, zorder=4)
    artist.set(color=ink, path_effects=[withStroke(linewidth=2.5, foreground=fill)])


def _write_outside(axes: Axes, text: str, _: str, font: dict[str, Any], place: float, start: float, end: float) -> None:
    """Beyond the end of a bar."""
    side, anchor = (4, "left") if end >= start else (-4, "right")
    write_text(axes, text, (end, place), (side, 0), size=font.get("size", TEXT), ha=anchor, va="center")


def _draw_scatter(pane: Pane, trace: Trace, _: dict[str, Any], order: float) -> None:
    xs, ys = pane.place_xs(trace["x"]), pane.place_ys(trace["y"])
    line = trace.get("line", {})
    step = _STEPS[line.get("shape", "linear")]
    if "stackgroup" in trace:
        starts = pane.stack_amounts(xs, ys)
        ends = [start + length for start, length in zip(starts, ys, strict=True)]
        look = {"facecolor": trace["fillcolor"], "edgecolor": "white", "linewidth": 0}
        pane.axes.fill_between(xs, starts, ends, step=step, hatch=trace["fillpattern"]["shape"] * 3, **look)
        return
    if "fill" in trace:
        _FILLS[trace["fill"]](pane.axes, xs, ys, trace["fillcolor"])
    common = {"zorder": 3 + order, "clip_on": trace.get("cliponaxis", True), "alpha": trace.get("opacity")}
    for part in trace["mode"].removesuffix("+text").split("+"):  # names are placed last, where there is room
        _MODES[part](pane, trace, xs, ys, common)
    for letter in "xy":
        error = trace.get(f"error_{letter}", {"visible": False})
        if error.get("visible", True):
            reach, width = [error["arrayminus"], error["array"]], error["thickness"] * POINT
            artist: dict[str, Any] = {"fmt": "none", "ecolor": trace["marker"]["color"], f"{letter}err": reach}
            pane.axes.errorbar(xs, ys, elinewidth=width, capsize=error["width"] * POINT, zorder=3 + order, **artist)


def _fill_area(axes: Axes, xs: list[float], ys: list[float], color: str) -> None:
    axes.fill(xs, ys, facecolor=color, linewidth=0, zorder=2)


def _draw_lines(pane: Pane, trace: Trace, xs: list[float], ys: list[float], common: dict[str, Any]) -> None:
    line = trace["line"]
    if width := line.get("width", 2) * POINT:  # traces without markers exist for their hover texts
        dash = DASHES[line.get("dash", "solid")]
        pane.axes.plot(xs, ys, color=line["color"], linewidth=width, linestyle=dash, **common)


def _draw_markers(pane: Pane, trace: Trace, xs: list[float], ys: list[float], common: dict[str, Any]) -> None:
    """Convert diameters in pixels (plotly) to areas in square points (matplotlib), one collection per marker."""
    marker = trace["marker"]
    edge = marker.get("line", {"width": 0})
    looks = (marker.get("symbol", "circle"), marker["size"], edge["width"], edge.get("color", marker["color"]))
    dots = list(zip(xs, ys, *(_repeat_value(look, len(xs)) for look in looks), strict=True))
    for symbol in dict.fromkeys(dot[2] for dot in dots):
        shape, is_open = symbol.removesuffix("-open"), symbol.endswith("-open")
        some = [dot for dot in dots if dot[2] == symbol]
        pane.axes.scatter(
            [x for x, *_ in some],
            [y for _, y, *_ in some],
            s=[(size * POINT) ** 2 for *_, size, _, _ in some],
            marker=MARKERS[shape],
            facecolors="none" if is_open else marker["color"],
            edgecolors=None if shape == "line-ns" else [color for *_, color in some],
            linewidths=[max(width, is_open) * POINT for *_, width, _ in some],
            **(common | {"alpha": marker.get("opacity", common["alpha"])}),
        )


def _repeat_value(value: Any, count: int) -> list[Any]:
    """A value that plotly accepts as a scalar or a list, as a list."""
    return value if isinstance(value, list) else [value] * count


_BAR_TEXTS = {"inside": _write_inside, "outside": _write_outside}
_FILLS = {"toself": _fill_area}
_MODES = {"lines": _draw_lines, "markers": _draw_markers}
TRACES = {
    "bar": _draw_bars,
    "scatter": _draw_scatter,
}  # (pane, trace, layout, drawing order)
_BESIDE = {1: "bottom", 0: "center", -1: "top"}
_ACROSS = {1: "left", 0: "center", -1: "right"}
_UP = {"top": 1, "middle": 0, "bottom": -1}
_RIGHT = {"right": 1, "center": 0, "left": -1}


def write_names(pane: Pane, trace: Trace) -> None:
    """Texts of dots, beside them; of those above or below on the other side if another text overlaps."""
    vertical, horizontal = trace["textposition"].split(" ")
    side, across = _UP[vertical], _RIGHT[horizontal]
    sizes = _repeat_value(trace["marker"]["size"], len(trace["x"]))
    for x, y, text, size in zip(
        pane.place_xs(trace["x"]), pane.place_ys(trace["y"]), trace["text"], sizes, strict=True
    ):
        occupied = [other.get_window_extent() for other in pane.axes.texts]
        offset = size / 2 + 2
        shift = (across * offset, side * offset)
        label = write_text(pane.axes, strip_markup(text), (x, y), shift, va=_BESIDE[side], ha=_ACROSS[across])
        if side and any(label.get_window_extent().overlaps(box) for box in occupied):
            label.set(va=_BESIDE[-side], position=(across * offset * POINT, -side * offset * POINT))


def write_text(
    axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float], size: float = TEXT, **look: Any
) -> Annotation:
    """Text at an offset in pixels, readable on any background."""
    away = (shift[0] * POINT, shift[1] * POINT)
    halo = [withStroke(linewidth=2, foreground="#ffffffc0")]
    common: dict[str, Any] = {"textcoords": "offset points", "color": _INK, "path_effects": halo, "zorder": 5}
    return axes.annotate(text, at, xytext=away, fontsize=size * POINT, **common, **look)


def strip_markup(text: str, limit: int = 36) -> str:
    """Text without plotly's tags and entities, in short lines, with escaped dollar signs."""
    lines = [html.unescape(re.sub(r"<[^<>]*>", "", line)).strip() for line in text.split("<br>")]
    short = (line if len(line) <= limit else line[: limit - 1] + "…" for line in lines)
    return "\n".join(short).replace("$", r"\$")
