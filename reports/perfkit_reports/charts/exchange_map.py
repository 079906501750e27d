"""Charts the bytes that all-to-alls move from each rank to each other, as a map."""

from collections.abc import Sequence

from perfkit.analysis.model.fleet import ExchangeMap
from perfkit.core import units
from perfkit_reports.charts.frame import Trace, build_axis, build_figure, escape_text, format_hover
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import VERMILLION, interpolate_color

_NAMED = 16  # most rows with room for a name each


def build_chart(exchange: ExchangeMap, block: str) -> Chart:
    """Senders from top to bottom, receivers from left to right; `block` is the chart's id."""
    names = [_name_ranks(exchange, rank) for rank in exchange.ranks]
    most = max((value for row in exchange.bytes for value in row if value is not None), default=0.0)
    stride = -(-len(names) // _NAMED)
    places = list(range(0, len(names), stride))
    height = 90 + max(120, min(420, 30 * len(names)))
    traces = [_build_row(exchange, names, place, most) for place in range(len(names))]
    figure = build_figure(
        traces,
        height=height,
        barmode="overlay",
        barcornerradius=0,
        bargap=0,
        margin={"l": 70, "r": 16, "t": 8, "b": 52},
        xaxis=build_axis(
            "receiving rank",
            showgrid=False,
            zeroline=False,
            range=[-0.5, len(names) - 0.5],
            tickvals=places,
            ticktext=[str(exchange.ranks[place]) for place in places],
        ),
        yaxis=build_axis(
            "sending rank",
            tickvals=[place + 0.47 for place in places],
            ticktext=[str(exchange.ranks[place]) for place in places],
            range=[len(names), -0.06],
            showgrid=False,
            zeroline=False,
            fixedrange=True,
        ),
    )
    merged = exchange.ranks_per_row
    cell = "" if merged == 1 else f" A cell sums {merged} by {merged} ranks, as far as their traces show."
    return Chart(
        id=block,
        figure=figure,
        label="Bytes of all-to-alls per step, by sending and receiving rank",
        title="All-to-all bytes by rank",
        caption=f"Row: sending rank. Column: receiving rank. Color: bytes per step, up to "
        f"{units.format_bytes(most)}.{cell}",
        height=height,
        legend=[("more bytes", VERMILLION, "")],
    )


def _build_row(exchange: ExchangeMap, names: Sequence[str], place: int, most: float) -> Trace:
    row = exchange.bytes[place]
    return {
        "type": "bar",
        "name": escape_text(names[place]),
        "x": list(range(len(row))),
        "y": [0.94] * len(row),
        "base": place,
        "width": 0.98,
        "marker": {
            "color": ["#00000000" if value is None else interpolate_color(value / (most or 1.0)) for value in row],
            "line": {"width": 0},
        },
        "hovertext": [
            format_hover(
                f"{names[place]} to {names[column]}",
                "unknown" if value is None else f"{units.format_bytes(value)} per step",
            )
            for column, value in enumerate(row)
        ],
        "hoverinfo": "text",
    }


def _name_ranks(exchange: ExchangeMap, first: int) -> str:
    return f"rank {first}" if exchange.ranks_per_row == 1 else f"rank {first} and the next {exchange.ranks_per_row - 1}"
