"""What all interactive figures share: plain dicts in plotly's own JSON schema.

They hold no colours of text or background: the page lays its light or dark theme over them. Building dicts
instead of `plotly.graph_objects` keeps a report's rendering under its budget; the tests validate every
figure against graph_objects.
"""

import html
from collections.abc import Iterable, Sequence
from typing import Any

from perfkit import units

Figure = dict[str, Any]
Trace = dict[str, Any]


def figure(traces: list[Trace], **layout: Any) -> Figure:
    """A figure with the shared margins and hover style. Its legend is the page's, which wraps as text does."""
    base: dict[str, Any] = {
        "margin": {"l": 64, "r": 16, "t": 16, "b": 52},
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "showlegend": False,
        "barcornerradius": 3,
    }
    return {"data": traces, "layout": {**base, **layout}}


def scatter(mode: str, xs: Iterable[object], ys: Iterable[object], told: Sequence[str] = (), **style: Any) -> Trace:
    """A trace of points with the hover text of each; without any, the pointer finds nothing."""
    hovered = {"hovertext": list(told), "hoverinfo": "text"} if told else {"hoverinfo": "skip"}
    return {"type": "scatter", "mode": mode, "x": list(xs), "y": list(ys), **hovered, **style}


def safe(text: str, limit: int = 48) -> str:
    """Text for plotly, which reads tags and entities in labels: escaped, and shortened to `limit` characters."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return html.escape(" ".join(short.split()), quote=False)


def hover(*lines: str) -> str:
    """Hover text: the first line bold. Every line is escaped."""
    first, *rest = (safe(line, 160) for line in lines if line)
    return "<br>".join((f"<b>{first}</b>", *rest))


def row_labels(names: Sequence[str]) -> list[dict[str, Any]]:
    """Names above the bars of a horizontal bar figure, so that long ones take no width from it."""
    return [
        {
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": name,
            "yanchor": "bottom",
            "yshift": 15,
            "text": safe(name, 60),
            "showarrow": False,
            "align": "left",
        }
        for name in names
    ]


ROWS_AXIS: dict[str, Any] = {
    "type": "category",
    "autorange": "reversed",
    "showticklabels": False,
    "showgrid": False,
    "zeroline": False,
    "fixedrange": True,
}


def rows_height(count: int) -> int:
    """Pixels for `count` labelled rows."""
    return 70 + 52 * count


def byte_scale(value: float) -> tuple[float, str]:
    """The divisor and the unit in which `units.nbytes` would write a value, for an axis."""
    for factor in (2**40, 2**30, 2**20, 2**10):
        if value >= factor:
            return float(factor), units.nbytes(factor).split(" ")[1]
    return 1.0, "B"


def time_scale(value: float) -> tuple[float, str]:
    """The same for seconds: an axis in s, ms or us."""
    for factor in (1.0, 1e-3):
        if value >= factor:
            return factor, units.seconds(factor).split(" ")[1]
    return 1e-6, "us"
