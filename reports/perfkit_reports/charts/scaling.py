"""A figure of variants over the number of ranks, a line for each combination of techniques."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfkit_reports.charts.frame import axis, figure, hover, safe, scatter
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import Style

_HEIGHT = 320


@dataclass(frozen=True)
class Line:
    """A combination of techniques: (ranks, value) from the fewest ranks on."""

    name: str
    style: Style
    points: tuple[tuple[int, float], ...]


def chart(
    lines: Sequence[Line], name: str, title: str, scale: float, unit: str, show: Callable[[float], str]
) -> Chart | None:
    """`scale` is what one `unit` of the axis is. None where no line has two points."""
    drawn = [line for line in lines if len(line.points) > 1]
    if not drawn:
        return None
    sizes = sorted({ranks for line in drawn for ranks, _ in line.points})
    traces = [
        scatter(
            "lines+markers",
            [ranks for ranks, _ in line.points],
            [value / scale for _, value in line.points],
            [hover(f"{line.name} on {ranks:,} ranks", show(value)) for ranks, value in line.points],
            name=safe(line.name),
            line={"color": line.style.colour, "width": 1.8, "dash": line.style.dash},
            marker={"color": line.style.colour, "symbol": line.style.symbol, "size": 8},
        )
        for line in drawn
    ]
    return Chart(
        id=name,
        title=title,
        figure=figure(
            traces,
            xaxis=axis("ranks", type="log", tickvals=sizes, ticktext=[f"{size:,}" for size in sizes]),
            yaxis=axis(unit, rangemode="tozero"),
        ),
        height=_HEIGHT,
        label=f"{title} over the number of ranks; the table below holds the same figures",
        legend=[(line.name, line.style.colour, line.style.symbol) for line in drawn],
    )
