"""The pairs of a variant: one dot a pair and clock, and the estimate as it was after each pair."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from perfkit.check.judge.process_pairs import compute_pair_ratio
from perfkit.check.judge.result import CheckedVariant
from perfkit.core import units
from perfkit_reports.charts.frame import (
    Figure,
    Trace,
    build_axis,
    build_figure,
    build_horizontal_line,
    build_scatter,
    format_hover,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import BLUE, ORANGE

_HEIGHT = 320


@dataclass(frozen=True)
class ClockStyle:
    """The style of a clock's dots and lines. `quantity` is the judged quantity whose threshold is drawn."""

    quantity: str
    name: str
    color: str
    symbol: str
    dash: str


WALL = ClockStyle("step_time", "step time", BLUE, "circle", "solid")
CPU = ClockStyle("cpu_time", "CPU time", ORANGE, "diamond", "dash")


def build_pairs_chart(variant: CheckedVariant, name: str) -> Chart | None:
    """Build the chart; None without pairs."""
    clocks = [clock for clock in (WALL, CPU) if _compute_changes(variant, clock)]
    if not clocks:
        return None
    return Chart(
        id=name,
        figure=_build_figure(variant, clocks),
        label="Change of step time and CPU time per pair of processes, with the running mean",
        height=_HEIGHT,
        legend=[(clock.name, clock.color, clock.symbol) for clock in clocks],
    )


def _build_figure(variant: CheckedVariant, clocks: Sequence[ClockStyle]) -> Figure:
    return build_figure(
        [trace for clock in clocks for trace in _build_traces(variant, clock)],
        height=_HEIGHT,
        margin={"l": 70, "r": 16, "t": 12, "b": 52},
        xaxis=build_axis("pair of processes", tickformat="d", rangemode="tozero", zeroline=False),
        yaxis=build_axis(
            "change, after vs before", ticksuffix=" %", tickformat="+.1~f", rangemode="tozero", zerolinewidth=2
        ),
        shapes=[line for clock in clocks for line in _build_threshold_lines(variant, clock)],
    )


def _compute_changes(variant: CheckedVariant, clock: ClockStyle) -> list[tuple[int, float]]:
    """(number of the pair, log ratio)."""
    ratios = (
        (number, compute_pair_ratio(pair, clock.quantity, variant.pairing))
        for number, pair in enumerate(variant.pairs, 1)
    )
    return [(number, ratio) for number, ratio in ratios if ratio is not None]


def _build_traces(variant: CheckedVariant, clock: ClockStyle) -> list[Trace]:
    changes = _compute_changes(variant, clock)
    numbers = [number for number, _ in changes]
    percents = [100 * math.expm1(ratio) for _, ratio in changes]
    sums = accumulate(ratio for _, ratio in changes)
    running = [100 * math.expm1(total / count) for count, total in enumerate(sums, 1)]
    return [
        build_scatter(
            "markers",
            numbers,
            [round(value, 4) for value in percents],
            [_format_hover(f"pair {number}", clock, value) for number, value in zip(numbers, percents, strict=True)],
            marker={"color": clock.color, "symbol": clock.symbol, "size": 8, "opacity": 0.75},
        ),
        build_scatter(
            "lines",
            numbers,
            [round(value, 4) for value in running],
            [_format_hover(f"mean of {number} pairs", clock, value) for number, value in enumerate(running, 1)],
            line={"color": clock.color, "dash": clock.dash, "width": 2},
        ),
    ]


def _format_hover(of: str, clock: ClockStyle, percent: float) -> str:
    return format_hover(of, f"{clock.name} {units.format_signed_percent(percent / 100)}")


def _build_threshold_lines(variant: CheckedVariant, clock: ClockStyle) -> list[dict[str, object]]:
    judged = next((verdict for verdict in variant.quantities if verdict.quantity == clock.quantity), None)
    if judged is None or judged.threshold is None or judged.threshold.relative is None:
        return []
    at = 100 * judged.threshold.relative
    return [build_horizontal_line(at, {"color": clock.color, "width": 1.2, "dash": "dot"}, layer="below")]
