"""Draws static figures: matplotlib draws the subset of plotly's schema that the charts use.

Unsupported kinds of traces, axes, markers or dashes are a `KeyError`.
"""

import math
from collections.abc import Callable
from typing import Any

from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import NEUTRAL
from perfkit_reports.render.matplotlib_traces import (
    DASHES,
    DPI,
    MARKERS,
    POINT,
    TEXT,
    TRACES,
    Pane,
    strip_markup,
    write_names,
    write_text,
)
from perfkit_reports.render.page import PATTERNS

_WIDTH = 800  # page pixels, 100 per inch
_TITLE, _LEGEND_ROW = 13, 22  # pixels
_LEGEND_COLUMNS = 4
_EDGE = 6  # dots of white margin

_SCALES = {"linear": "linear", "log": "log", "category": "linear"}
_NUMBERS: dict[str, Callable[[float], str]] = {
    "": "{:.6g}".format,
    "d": "{:.0f}".format,
    "~s": ticker.EngFormatter(sep=""),
    "+.1~f": lambda value: f"{round(value, 1):+g}",
}
_LAYERS = {"below": 1.0, "above": 4.5}


def draw_chart(chart: Chart) -> Figure:
    """A chart as on load: without disabled layers, with legend, without captions."""
    data, layout = chart.figure["data"], chart.figure["layout"]
    visible = [trace for trace in data if trace.get("visible", True)]
    layers = [(layer.label, layer.color, layer.symbol) for layer in chart.layers if layer.on and layer.symbol]
    marks = [_make_legend_mark(*mark) for mark in (*chart.legend, *layers)]
    legend = 14 + _LEGEND_ROW * math.ceil(len(marks) / _LEGEND_COLUMNS) if marks else 0
    height, margin = layout.get("height", chart.height) + legend, layout["margin"]
    figure = Figure(figsize=(_WIDTH / 100, height / 100), dpi=DPI)
    sides = {"left": margin["l"] / _WIDTH, "right": 1 - margin["r"] / _WIDTH}
    figure.subplots_adjust(**sides, bottom=margin["b"] / height, top=1 - (margin["t"] + legend) / height)
    panes = {name: _make_pane(figure, name, chart.figure) for name in ("y", "y2") if f"yaxis{name[1:]}" in layout}
    for place, trace in enumerate(visible):
        TRACES[trace["type"]](panes[trace.get("yaxis", "y")], trace, layout, place / len(visible))
    for pane in panes.values():
        _extend_to_zero(pane)
    main = panes["y"]
    _make_room(figure, main)
    for shape in layout.get("shapes", ()):
        _SHAPES[shape["type"]](main, shape)
    for note in layout.get("annotations", ()):
        if note.get("visible", True):
            (_draw_arrow if note["showarrow"] else _draw_note)(main, note)
    for trace in visible:
        if "text" in trace.get("mode", ""):
            write_names(main, trace)
    look = {"fontsize": TEXT * POINT, "frameon": False, "ncols": _LEGEND_COLUMNS, "borderaxespad": 0.7}
    figure.legend(handles=marks, loc="upper center", **look)
    return figure


def _make_legend_mark(name: str, color: str, mark: str) -> Patch | Line2D:
    if mark in PATTERNS:
        return Patch(facecolor=color, hatch=mark * 3, edgecolor="white", linewidth=0, label=strip_markup(name))
    return Line2D([], [], color=color, marker=MARKERS[mark], linestyle="", label=strip_markup(name))


def _make_pane(figure: Figure, name: str, drawn: dict[str, Any]) -> Pane:
    x, y = drawn["layout"]["xaxis"], drawn["layout"][f"yaxis{name[1:]}"]
    axes = figure.add_subplot(label=name)
    box = axes.get_position()
    low, high = y.get("domain", (0, 1))
    axes.set_position((box.x0, box.y0 + low * box.height, box.width, (high - low) * box.height))
    traces = [trace for trace in drawn["data"] if trace.get("yaxis", "y") == name]
    every = ([place for trace in traces for place in trace[letter]] for letter in "xy")
    pane = Pane(axes, x, y, *(_place_categories(axis, places) for axis, places in zip((x, y), every, strict=True)))
    _set_axis(pane, "x", x, pane.columns)
    _set_axis(pane, "y", y, pane.rows)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines["left"].set_visible(y.get("showticklabels", True))
    if name != "y":  # a strip above the plot that shares its axis
        axes.spines["bottom"].set_visible(False)
        axes.set(xticks=[], xlabel="")
    return pane


def _place_categories(axis: dict[str, Any], places: list[Any]) -> dict[Any, float]:
    """Positions by name, in the axis's order or that of the traces; empty for numeric axes."""
    if axis.get("type") != "category":
        return {}
    return {name: place for place, name in enumerate(axis.get("categoryarray") or dict.fromkeys(places))}


def _set_axis(pane: Pane, letter: str, axis: dict[str, Any], places: dict[Any, float]) -> None:
    scale, title = _SCALES[axis.get("type", "linear")], strip_markup(axis.get("title", {}).get("text", ""), 80)
    pane.axes.set(**{f"{letter}scale": scale, f"{letter}label": title})
    plot_axis = getattr(pane.axes, f"{letter}axis")
    plot_axis.label.set_fontsize(_TITLE * POINT)
    plot_axis.set_tick_params(labelsize=TEXT * POINT)
    plot_axis.set_minor_locator(ticker.NullLocator())
    if axis.get("showgrid", True):
        plot_axis.grid(alpha=0.25, linewidth=0.6)
    number, suffix = _NUMBERS[axis.get("tickformat", "")], axis.get("ticksuffix", "")
    plot_axis.set_major_formatter(lambda value, _: f"{number(value)}{suffix}")
    if "tickvals" in axis:
        labels = [strip_markup(str(text)) for text in axis.get("ticktext", axis["tickvals"])]
        plot_axis.set_ticks([places.get(value, value) for value in axis["tickvals"]], labels)
    elif not axis.get("showticklabels", True):
        plot_axis.set_ticks([])
    elif "dtick" in axis and scale == "linear":
        plot_axis.set_major_locator(ticker.MultipleLocator(axis["dtick"], offset=axis.get("tick0", 0)))
    elif "nticks" in axis or axis.get("tickformat") == "d":
        plot_axis.set_major_locator(ticker.MaxNLocator(axis.get("nticks", 10), integer=axis.get("tickformat") == "d"))
    # After the ticks, which would widen the range.
    if ends := axis.get("range", (-0.5, len(places) - 0.5) if places else None):
        low, high = (10**end for end in ends) if scale == "log" else ends
        pane.axes.set(**{f"{letter}lim": (low, high)})
    if axis.get("zeroline", "zerolinewidth" in axis):
        across = pane.axes.axvline if letter == "x" else pane.axes.axhline
        across(0, color=NEUTRAL, linewidth=axis.get("zerolinewidth", 1) * POINT)


def _extend_to_zero(pane: Pane) -> None:
    for letter, axis in (("x", pane.x), ("y", pane.y)):
        if axis.get("rangemode") == "tozero":
            low, high = getattr(pane.axes.dataLim, f"interval{letter}")
            limits = getattr(pane.axes, f"get_{letter}lim")()
            pane.axes.set(**{f"{letter}lim": (0 if low >= 0 else limits[0], 0 if high <= 0 else limits[1])})


def _make_room(figure: Figure, pane: Pane) -> None:
    """Widen the left margin if the y axis labels need it."""
    box = pane.axes.yaxis.get_tightbbox()
    if box is None or box.x0 >= _EDGE:
        return
    for axes in figure.axes:
        place = axes.get_position()
        margin = place.x0 + (_EDGE - box.x0) / figure.bbox.width
        axes.set_position((margin, place.y0, place.x1 - margin, place.height))


def _draw_line(pane: Pane, shape: dict[str, Any]) -> None:
    line, ends = shape["line"], ([shape["x0"], shape["x1"]], [shape["y0"], shape["y1"]])
    look = {"color": line["color"], "linewidth": line["width"] * POINT, "linestyle": DASHES[line["dash"]]}
    pane.axes.plot(*ends, transform=_get_transform(pane, shape), zorder=_LAYERS[shape.get("layer", "above")], **look)


def _draw_rectangle(pane: Pane, shape: dict[str, Any]) -> None:
    x0, x1, y0, y1 = (shape[side] for side in ("x0", "x1", "y0", "y1"))
    look = {"facecolor": shape["fillcolor"], "alpha": shape["opacity"], "linewidth": 0}
    layer = _LAYERS[shape.get("layer", "above")]
    pane.axes.fill([x0, x1, x1, x0], [y0, y0, y1, y1], transform=_get_transform(pane, shape), zorder=layer, **look)


_SHAPES = {"line": _draw_line, "rect": _draw_rectangle}


def _get_transform(pane: Pane, item: dict[str, Any]) -> Any:
    """Transform for paper coordinates in one direction and data coordinates in the other."""
    if item.get("xref") == "paper":
        return pane.axes.get_yaxis_transform()
    return pane.axes.get_xaxis_transform() if item.get("yref") == "paper" else pane.axes.transData


def _get_coordinates(pane: Pane, x: Any, y: Any) -> tuple[float, float]:
    """Coordinates of a note; on logarithmic axes plotly's are logarithms."""
    (across,), (up,) = pane.place_xs([x]), pane.place_ys([y])
    return 10**across if pane.x.get("type") == "log" else across, 10**up if pane.y.get("type") == "log" else up


def _draw_arrow(pane: Pane, note: dict[str, Any]) -> None:
    look = {"arrowstyle": "->", "color": note["arrowcolor"], "linewidth": note["arrowwidth"] * POINT}
    gaps = {"shrinkA": note["startstandoff"] * POINT, "shrinkB": note["standoff"] * POINT}
    start, end = _get_coordinates(pane, note["ax"], note["ay"]), _get_coordinates(pane, note["x"], note["y"])
    pane.axes.annotate("", end, xytext=start, arrowprops=look | gaps, zorder=4.5)


def _draw_note(pane: Pane, note: dict[str, Any]) -> None:
    shift, angle = (note.get("xshift", 0), note.get("yshift", 0)), 0.0
    if note.get("name", "").startswith("slope"):  # rotated along its line, as on the page
        angle, offset = _compute_slope(pane), -9 if "below" in note["name"] else 9
        shift, note = (-offset * math.sin(angle), offset * math.cos(angle)), {**note, "yanchor": "middle"}
    write_text(
        pane.axes,
        strip_markup(note["text"], 80),
        _get_coordinates(pane, note["x"], note["y"]),
        shift,
        size=note.get("font", {}).get("size", TEXT),
        xycoords=_get_transform(pane, note),
        ha=note.get("xanchor", "center"),
        va=note.get("yanchor", "middle").replace("middle", "center"),
        rotation=math.degrees(angle),
        rotation_mode="anchor",
    )


def _compute_slope(pane: Pane) -> float:
    """The angle of a line of slope 1 on logarithmic axes."""
    box, (x0, x1), (y0, y1) = pane.axes.get_window_extent(), pane.axes.get_xlim(), pane.axes.get_ylim()
    return math.atan2(box.height / math.log(y1 / y0), box.width / math.log(x1 / x0))
