"""The parts that all interactive figures share: plain dicts in plotly's own JSON schema.

They hold no colors of text or background: the page lays its light or dark theme over them. Building dicts
instead of `plotly.graph_objects` keeps a report's rendering under its budget; the tests validate every
figure against graph_objects.
"""

import html
from collections.abc import Iterable, Sequence
from typing import Any

from perfkit.core import units
from perfkit_reports.palette import Fill, build_bar_pattern

Figure = dict[str, Any]
Trace = dict[str, Any]
Note = dict[str, Any]  # an annotation


def build_figure(traces: list[Trace], **layout: Any) -> Figure:
    """A figure with the shared margins and hover style. Its legend is the page's, which wraps as text does."""
    base: dict[str, Any] = {
        "margin": {"l": 64, "r": 16, "t": 16, "b": 52},
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "showlegend": False,
        "barcornerradius": 3,
        "xaxis": {},
        "yaxis": {},
    }
    return {"data": traces, "layout": {**base, **layout}}


def build_scatter(
    mode: str, xs: Iterable[object], ys: Iterable[object], hover: Sequence[str] = (), **style: Any
) -> Trace:
    """A trace of points with the hover text of each; without any, the pointer finds nothing."""
    hovered = {"hovertext": list(hover), "hoverinfo": "text"} if hover else {"hoverinfo": "skip"}
    return {"type": "scatter", "mode": mode, "x": list(xs), "y": list(ys), **hovered, **style}


def escape_text(text: str, limit: int = 48) -> str:
    """Text for plotly, which reads tags and entities in labels: escaped, and shortened to `limit` characters."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return html.escape(" ".join(short.split()), quote=False)


def format_hover(*lines: str) -> str:
    """Hover text: the first line bold. Every line is escaped."""
    first, *rest = (escape_text(line, 160) for line in lines if line)
    return "<br>".join((f"<b>{first}</b>", *rest))


def build_axis(title: str, **style: Any) -> dict[str, Any]:
    """An axis with a title."""
    return {"title": {"text": escape_text(title)}, **style}


def build_bars(fill: Fill, xs: Iterable[object], ys: Iterable[object], hover: Iterable[str], **style: Any) -> Trace:
    """A trace of bars that look alike, with the hover text of each."""
    marker = {"color": fill.color, "pattern": build_bar_pattern(fill)}
    hovered = {"hovertext": list(hover), "hoverinfo": "text"}
    return {"type": "bar", "x": list(xs), "y": list(ys), "marker": marker, **hovered, **style}


def build_row_bars(fill: Fill, rows: Sequence[tuple[str, float, str]], **style: Any) -> Trace:
    """Bars from the left to the right: of each the name of its row, its length and its hover text."""
    names, lengths, hover = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    return build_bars(fill, lengths, names, hover, orientation="h", width=0.46, **style)


def build_row_figure(
    traces: list[Trace], names: Sequence[str], notes: Sequence[Note] = (), *, margin: dict[str, int], **layout: Any
) -> Figure:
    """A figure of `build_row_bars`, each row below its name."""
    return build_figure(
        traces,
        height=margin["t"] + margin["b"] + 56 * len(names),
        margin=margin,
        annotations=[*build_row_labels(names), *notes],
        # Said, since a range that plotly finds makes room for the names, too: bars that grow cover them.
        yaxis={
            **ROWS_AXIS,
            "categoryorder": "array",
            "categoryarray": list(names),
            "range": [len(names) - 0.5, -0.5],
        },
        **layout,
    )


def build_row_labels(names: Sequence[str], **place: Any) -> list[Note]:
    """Names above the bars of a horizontal bar figure, so that long ones take no width from it."""
    common = {"x": 0, "xref": "paper", "xanchor": "left", "yanchor": "bottom", "yshift": 15, "align": "left"}
    return [{**common, "y": name, "text": escape_text(name, 60), "showarrow": False, **place} for name in names]


def build_horizontal_line(y: float, line: dict[str, object], **style: Any) -> dict[str, Any]:
    """Build a horizontal line across the plot."""
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line, **style}


# A white point with a dark edge, to be seen on any color.
POINT: dict[str, Any] = {"color": "#ffffff", "line": {"width": 2, "color": "#16181d"}}

ROWS_AXIS: dict[str, Any] = {
    "type": "category",
    "autorange": False,
    "showticklabels": False,
    "showgrid": False,
    "zeroline": False,
    "fixedrange": True,
}


def choose_byte_scale(value: float) -> tuple[float, str]:
    """The divisor and the unit in which `units.nbytes` would write a value, for an axis."""
    for factor in (2**40, 2**30, 2**20, 2**10):
        if value >= factor:
            return float(factor), units.format_bytes(factor).split(" ")[1]
    return 1.0, "B"


def choose_time_scale(value: float) -> tuple[float, str]:
    """Choose the unit of seconds: an axis in s, ms or us."""
    for factor in (1.0, 1e-3):
        if value >= factor:
            return factor, units.format_seconds(factor).split(" ")[1]
    return 1e-6, "us"
