"""Every timed step as a dot and every process's median as a bar: the spread within processes and between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from perfkit.core import units
from perfkit_reports.charts.frame import (
    ROWS_AXIS,
    Trace,
    build_axis,
    build_figure,
    build_row_labels,
    build_scatter,
    choose_time_scale,
    format_hover,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import Style

_GOLDEN = 0.618033988749895  # multiples of it spread evenly, so dots of equal time do not hide each other
_HEIGHT = 0.62  # of a row that is 1 high: the rest is for its name


@dataclass(frozen=True)
class StepTimesRow:
    """A name with the step times, one tuple per process, and the data waits of the first process."""

    name: str
    style: Style
    runs: tuple[tuple[float, ...], ...]
    waits: tuple[float, ...] = ()


def build_chart(rows: Sequence[StepTimesRow]) -> Chart | None:
    """Build the chart; None without any step."""
    rows = [row for row in rows if any(row.runs)]
    if not rows:
        return None
    scale, unit = choose_time_scale(max(max(run) for row in rows for run in row.runs if run))
    labels = [
        {**label, "y": place} for place, label in enumerate(build_row_labels([row.name for row in rows], yshift=18))
    ]
    drawn = build_figure(
        [trace for place, row in enumerate(rows) for trace in _build_row(row, place, scale)],
        height=90 + 64 * len(rows),
        margin={"l": 12, "r": 12, "t": 30, "b": 52},
        annotations=labels,
        xaxis=build_axis(f"step time ({unit})", rangemode="tozero"),
        yaxis={**ROWS_AXIS, "type": "linear", "range": [len(rows) - 0.55, -0.75]},
    )
    return Chart(id="step-times", figure=drawn, label="Every timed step by process", title="Timed steps")


def _build_row(row: StepTimesRow, place: int, scale: float) -> list[Trace]:
    runs = [run for run in row.runs if run]
    lanes = len(runs)
    steps = [(lane, step, seconds) for lane, run in enumerate(runs) for step, seconds in enumerate(run)]
    heights = [
        round(place + ((lane + 0.15 + 0.7 * ((step * _GOLDEN) % 1.0)) / lanes - 0.5) * _HEIGHT, 3)
        for lane, step, _ in steps
    ]
    traces = [
        _build_dots(
            [seconds / scale for *_, seconds in steps],
            heights,
            [
                format_hover(row.name, f"process {lane + 1}, step {step + 1}: {units.format_seconds(seconds)}")
                for lane, step, seconds in steps
            ],
            {"color": row.style.color, "size": 5, "opacity": 0.55},
        )
    ]
    if row.waits:
        traces.append(
            _build_dots(
                [wait / scale for wait in row.waits],
                [height for height, (lane, *_) in zip(heights, steps, strict=True) if lane == 0],
                [
                    format_hover(row.name, f"step {step}: waited {units.format_seconds(wait)} for data")
                    for step, wait in enumerate(row.waits, 1)
                ],
                {"color": row.style.color, "symbol": "circle-open", "size": 5, "opacity": 0.8},
            )
        )
    medians = [median(run) for run in runs]
    line = {"width": 3, "color": row.style.color}
    traces.append(
        _build_dots(
            [middle / scale for middle in medians],
            [place + ((lane + 0.5) / lanes - 0.5) * _HEIGHT for lane in range(lanes)],
            [
                format_hover(row.name, f"process {lane}: median {units.format_seconds(middle)}")
                for lane, middle in enumerate(medians, 1)
            ],
            {"color": row.style.color, "symbol": "line-ns", "size": 14, "line": line},
        )
    )
    return traces


def _build_dots(xs: list[float], ys: list[float], hovers: list[str], marker: dict[str, object]) -> Trace:
    return build_scatter("markers", [round(x, 5) for x in xs], ys, hovers, marker=marker)
