"""Charts the load of every expert of every layer relative to the layer's mean, as a map."""

from collections.abc import Sequence
from statistics import fmean

from perfkit.core import units
from perfkit.core.record.rank_record import ExpertLoad
from perfkit_reports.charts.frame import Trace, build_axis, build_figure, escape_text, format_hover
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import BLUE, VERMILLION, interpolate_color

_LEAST = 0.1  # of the mean: least range of the color scale, so that small differences show none


def compute_imbalance(load: ExpertLoad) -> float:
    """The tokens sent to the busiest expert, over the mean of all."""
    return max(load.routed_tokens) / fmean(load.routed_tokens)


def build_chart(variant: str, loads: Sequence[ExpertLoad]) -> Chart:
    """Layers from top to bottom, experts from left to right."""
    away = [[sent / fmean(load.routed_tokens) - 1 for sent in load.routed_tokens] for load in loads]
    far = max(_LEAST, *(abs(value) for row in away for value in row))
    most = max(len(load.routed_tokens) for load in loads)
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": escape_text(load.layer),
            "x": list(range(len(load.routed_tokens))),
            "y": [0.94] * len(load.routed_tokens),
            "base": place,
            "width": 0.98,
            "marker": {"color": [interpolate_color(value / far) for value in row], "line": {"width": 0}},
            "hovertext": [
                format_hover(f"{load.layer}, expert {expert}", f"{sent:,} tokens sent", f"{accepted:,} taken")
                for expert, (sent, accepted) in enumerate(zip(load.routed_tokens, load.accepted_tokens, strict=True))
            ],
            "hoverinfo": "text",
        }
        for place, (load, row) in enumerate(zip(loads, away, strict=True))
    ]
    drawn = build_figure(
        traces,
        height=70 + 34 * len(loads),
        barmode="overlay",
        barcornerradius=0,
        bargap=0,
        margin={"l": 130, "r": 16, "t": 8, "b": 52},
        xaxis=build_axis("expert", showgrid=False, range=[-0.6, most - 0.4], tickformat="d", dtick=max(1, most // 16)),
        yaxis={
            "tickvals": [place + 0.47 for place in range(len(loads))],
            "ticktext": [escape_text(load.layer, 18) for load in loads],
            "range": [len(loads), -0.06],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    )
    return Chart(
        id="experts-chart",
        figure=drawn,
        label=f"Load of each expert of {variant} relative to the mean of its layer; the table has the same figures",
        title=f"Load by layer and expert: {variant}",
        caption=f"Rows are layers, cells are experts. Color is the deviation of the load from the layer's mean, up to "
        f"{units.format_percent(far, 0)}.",
        height=70 + 34 * len(loads),
        legend=[("above the mean", VERMILLION, ""), ("below", BLUE, "")],
    )
