"""Expected step time and peak memory of advised techniques, a bar each, the step as it is first."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from perfkit.core import units
from perfkit.plan.advise.advice import Advice, AdviceOption
from perfkit_reports.cells import format_range
from perfkit_reports.charts.frame import (
    Figure,
    Trace,
    build_axis,
    build_row_bars,
    build_row_figure,
    build_scatter,
    choose_byte_scale,
    choose_time_scale,
    format_hover,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import BLUE, NEUTRAL, ORANGE, VERMILLION, Fill

_ROWS = 8  # beside the step as it is
_ROOM = 1.04  # of the longest bar
_FAR = 4.0  # a limit this many times the longest bar would hide the bars
_AS_IT_IS = "as it is"
_FILLS = {
    _AS_IT_IS: Fill(NEUTRAL),
    "comparable losses": Fill(BLUE),
    "changes results": Fill(ORANGE, "/"),
}


class ExpectedBar(NamedTuple):
    """A bar: its name, its kind (a key of the legend), the expected value and its bounds."""

    name: str
    kind: str
    value: float
    low: float
    high: float


def build_advised_charts(advice: Advice, options: Sequence[AdviceOption]) -> Iterator[Chart]:
    """Bars of the step time, and bars of the memory; neither where it is not known of any option."""
    shown = options[:_ROWS]
    step_s, peak = advice.step_s, advice.peak_bytes
    times = [] if step_s is None else [bar for option in shown for bar in _list_times(option, step_s)]
    if step_s is not None and times:
        scale, unit = choose_time_scale(step_s)
        what = "time per sample, as a step" if advice.goal == "cost" else "step time"
        bars = [ExpectedBar(_AS_IT_IS, _AS_IT_IS, step_s, step_s, step_s), *times]
        figure = _build_figure(bars, f"{what} ({unit})", scale, units.format_seconds)
        yield _build_chart("expected-time", f"Expected {what}", figure, bars)
    memory = [bar for option in shown for bar in _list_peaks(option)]
    if peak is not None and memory:
        bars = [ExpectedBar(_AS_IT_IS, _AS_IT_IS, peak.value, peak.low, peak.high), *memory]
        scale, unit = choose_byte_scale(max(bar.high for bar in bars))
        figure = _build_figure(bars, f"peak memory ({unit})", scale, units.format_bytes, advice.limit_bytes)
        yield _build_chart("expected-memory", "Expected peak memory", figure, bars)


def _list_times(option: AdviceOption, step_s: float) -> Iterator[ExpectedBar]:
    saving = option.saving_s
    if saving is not None:
        ends = (max(0.0, step_s - each) for each in (saving.value, saving.high, saving.low))
        yield ExpectedBar(option.name, _name_kind(option), *ends)


def _list_peaks(option: AdviceOption) -> Iterator[ExpectedBar]:
    peak = option.peak_bytes
    if peak is not None:
        yield ExpectedBar(option.name, _name_kind(option), peak.value, peak.low, peak.high)


def _name_kind(option: AdviceOption) -> str:
    return "comparable losses" if option.risk.comparable else "changes results"


def _build_chart(name: str, title: str, figure: Figure, bars: Sequence[ExpectedBar]) -> Chart:
    kinds = {bar.kind for bar in bars}
    return Chart(
        id=name,
        figure=figure,
        title=title,
        label=f"{title} of each technique, with its bounds; the techniques table has the figures",
        height=figure["layout"]["height"],
        legend=[(kind, fill.color, fill.pattern) for kind, fill in _FILLS.items() if kind in kinds],
    )


def _build_figure(
    bars: Sequence[ExpectedBar], title: str, scale: float, show: Callable[[float], str], limit: float | None = None
) -> Figure:
    longest = max(bar.high for bar in bars)
    is_seen = limit is not None and limit <= _FAR * longest
    longest = max(longest, limit if limit is not None and is_seen else 0.0)
    traces = [
        build_row_bars(
            fill,
            [
                (bar.name, bar.value / scale, format_hover(bar.name, f"{show(bar.low)} to {show(bar.high)}"))
                for bar in bars
                if bar.kind == kind
            ],
            name=kind,
        )
        for kind, fill in _FILLS.items()
    ]
    line = {"color": VERMILLION, "width": 1.6, "dash": "dash"}
    at = None if limit is None else limit / scale
    shapes = [{"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": at, "x1": at, "line": line}] if is_seen else []
    drawn = build_row_figure(
        [*traces, *_build_bounds(bars, scale)],
        [bar.name for bar in bars],
        barmode="stack",
        margin={"l": 18, "r": 12, "t": 10, "b": 52},
        shapes=shapes,
        xaxis=build_axis(title, range=[0, _ROOM * longest / scale], fixedrange=True),
    )
    # Beside its name, where neither a whisker nor the limit crosses it.
    for label, bar in zip(drawn["layout"]["annotations"], bars, strict=True):
        label["text"] += f": {_format_label(bar, show)}"
    return drawn


def _format_label(bar: ExpectedBar, show: Callable[[float], str]) -> str:
    low, high = show(bar.low), show(bar.high)
    return high if low == high else format_range(low, high, f" {high.split(' ')[-1]}")


def _build_bounds(bars: Sequence[ExpectedBar], scale: float) -> list[Trace]:
    """Whiskers of what is not exact."""
    inexact = [bar for bar in bars if bar.low < bar.high]
    if not inexact:
        return []
    look = {"color": NEUTRAL, "thickness": 1.6, "width": 6}
    above = [(bar.high - bar.value) / scale for bar in inexact]
    below = [(bar.value - bar.low) / scale for bar in inexact]
    error = {"type": "data", "array": above, "arrayminus": below, **look}
    places, names = [bar.value / scale for bar in inexact], [bar.name for bar in inexact]
    return [build_scatter("markers", places, names, name="bounds", marker={"color": NEUTRAL, "size": 1}, error_x=error)]
