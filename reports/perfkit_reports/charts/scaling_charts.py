"""A figure of variants over the number of ranks, a line for each combination of techniques."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from perfkit_reports.charts.frame import build_axis, build_figure, build_scatter, escape_text, format_hover
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import Style

_HEIGHT = 320

# The fixed quantity of each scaling mode, and its efficiency.
MEANING = {
    "weak": "Weak scaling: fixed batch per rank; efficiency is T(fewest) / T(N).",
    "strong": "Strong scaling: fixed global batch, split over the ranks; efficiency is "
    "fewest × T(fewest) / (N × T(N)).",
}


Span = tuple[float, float] | None  # the bounds of a value, if any


@dataclass(frozen=True)
class ScalingLine:
    """A combination of techniques: (ranks, value) from the fewest ranks on, and the bounds of each.

    What was `predicted` beside what was measured is drawn dotted and with hollow points.
    """

    name: str
    style: Style
    points: tuple[tuple[int, float], ...]
    spans: tuple[Span, ...] = ()
    predicted: bool = False


def build_chart(
    lines: Sequence[ScalingLine],
    name: str,
    title: str,
    scale: float,
    unit: str,
    show: Callable[[float], str],
    most: float | None = None,
) -> Chart | None:
    """Build the chart; `scale` is one `unit` of the axis, `most` its end. None where no line has two points."""
    drawn = [line for line in lines if len(line.points) > 1]
    if not drawn:
        return None
    sizes = sorted({ranks for line in drawn for ranks, _ in line.points})
    traces = [
        build_scatter(
            "lines+markers",
            [ranks for ranks, _ in line.points],
            [value / scale for _, value in line.points],
            list(_format_hovers(line, show)),
            name=escape_text(_format_name(line)),
            error_y=_build_error_bars(line, scale),
            line=_build_stroke(line),
            marker={"color": line.style.color, "symbol": _get_symbol(line), "size": 8},
        )
        for line in drawn
    ]
    ends: dict[str, object] = {"rangemode": "tozero"} if most is None else {"range": [0.0, most / scale]}
    return Chart(
        id=name,
        title=title,
        figure=build_figure(
            traces,
            xaxis=build_axis("ranks", type="log", tickvals=sizes, ticktext=[f"{size:,}" for size in sizes]),
            yaxis=build_axis(unit, **ends),
        ),
        height=_HEIGHT,
        label=f"{title} over the number of ranks; the table below has the same figures",
        legend=list(dict.fromkeys((line.name, line.style.color, line.style.symbol) for line in drawn)),
    )


def _format_name(line: ScalingLine) -> str:
    return f"{line.name}, predicted" if line.predicted else line.name


def _get_symbol(line: ScalingLine) -> str:
    return f"{line.style.symbol}-open" if line.predicted else line.style.symbol


def _build_stroke(line: ScalingLine) -> dict[str, object]:
    width, dash = (1.2, "dot") if line.predicted else (1.8, line.style.dash)
    return {"color": line.style.color, "width": width, "dash": dash}


def _format_hovers(line: ScalingLine, show: Callable[[float], str]) -> Iterator[str]:
    for (ranks, value), span in zip_longest(line.points, line.spans):
        bounds = "" if span is None else f"{show(span[0])} to {show(span[1])}"
        yield format_hover(f"{_format_name(line)} on {ranks:,} ranks", show(value), bounds)


def _build_error_bars(line: ScalingLine, scale: float) -> dict[str, object]:
    """A bar from each value to its bounds; none where no value has any."""
    if not any(line.spans):
        return {"visible": False}
    ends = [span or (value, value) for (_, value), span in zip(line.points, line.spans, strict=True)]
    return {
        "type": "data",
        "array": [(high - value) / scale for (_, value), (_, high) in zip(line.points, ends, strict=True)],
        "arrayminus": [(value - low) / scale for (_, value), (low, _) in zip(line.points, ends, strict=True)],
        "thickness": 0.8 if line.predicted else 1.2,
        "width": 4,
    }
