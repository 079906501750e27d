"""Time split of a step, and its roofline."""

from collections.abc import Sequence
from dataclasses import replace

from perfkit.analysis.model import time_split
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core import units
from perfkit.devices.accelerator import is_cpu
from perfkit_reports.charts import roofline as roofline_chart
from perfkit_reports.charts.roofline_plane import RooflinePlane
from perfkit_reports.charts.roofs import is_placeable
from perfkit_reports.document.blocks import Bar, Bars, Block, Chart, Choice, Section, Text
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.tables import make_list
from perfkit_reports.subjects.trace import trace_headline
from perfkit_reports.subjects.trace.series import (
    BARS,
    build_plane,
    build_step_bars,
    build_stream_bars,
    build_trace_bar,
    build_trace_bars,
    choose_focus_trace,
    list_detailed_traces,
    list_traces,
)

_BESIDE = 440  # pixels of the roofline beside the memory
_TITLE = "Step time breakdown"
_SUM = "Parts sum to 100 %. Overlapped communication and copies count as compute."
_TO_SCALE = _SUM.replace("Parts sum to 100 %", "Parts of a bar sum to its step; all bars share one scale")
_CUT = (
    f"At most {BARS} bars: the slowest steps and the busiest streams. All are in tables/steps.parquet and "
    "tables/streams.parquet."
)
_ONE_DOT = "A roofline needs more than one dot; the figures are in the table below."
_NO_DOT = "No work has both FLOPs and bytes."
_WITHOUT_ROOFS = "Performance; roofs are unknown. Dot area is the share of the step."
_AXES = (
    "Solid roofs are measured, dashed ones are from a datasheet. Dot area is the share of the step; the distance to "
    "the roof is the potential saving."
)
# Parts of the step whose names need an explanation.
_MEANING = {
    time_split.NO_CEILING: f"“{time_split.NO_CEILING}”: FLOPs and bytes are known, the roof is not.",
    time_split.PYTHON: f"“{time_split.PYTHON}”: Python and dispatch overhead, ops too small for a bound, and waiting.",
    time_split.WAITING_FOR_CPU: f"“{time_split.WAITING_FOR_CPU}”: nothing was queued on the device.",
    time_split.UNKNOWN_EVENTS: f"“{time_split.UNKNOWN_EVENTS}”: neither ops nor kernels of a format known to perfkit.",
    time_split.IDLE_BESIDE: f"“{time_split.IDLE_BESIDE}”: another device of the process worked.",
    time_split.UNRECORDED: f"“{time_split.UNRECORDED}”: device activity unknown; the trace begins there or lacks "
    "the kernels of graphs.",
    time_split.IDLE_UNKNOWN: f"“{time_split.IDLE_UNKNOWN}”: unknown whether work was queued.",
}


def build_time_bar(analysis: TraceAnalysis) -> tuple[Bars, ...]:
    """The parts of the step of the trace to look at first, below those of the trace it is compared with."""
    trace, difference = choose_focus_trace(analysis), analysis.difference
    if trace is None or not trace.time_split:
        return ()
    bars = [build_trace_bar(trace, "now: " if difference else "")]
    if difference is not None and difference.before_trace.time_split:
        bars.insert(0, build_trace_bar(difference.before_trace, "before: "))
    unit = "step" if trace.steps else "trace"
    return (
        Bars(
            id="time-split",
            title="",
            bars=tuple(bars),
            label=f"Time of the {unit}",
            whole=f"of the {unit}",
            to_scale=len(bars) > 1,
            weight=Weight.BRIEF,
        ),
    )


def build_time_section(analysis: TraceAnalysis) -> Section | None:
    """The parts of the step of each of several traces, of steps and of streams; None where the first screen has all."""
    bars, total = build_trace_bars(analysis), len(list_traces(analysis))
    few = f"Slowest, median and fastest of {total:,} traces; all are in tables/time.parquet."
    label = "Step time breakdown by trace"
    several = sum(len(block.bars) for block in build_time_bar(analysis)) < len(bars)
    blocks = (
        *(
            [Bars(id="time-traces", title="", bars=tuple(bars), label=label, caption=few if total > BARS else "")]
            if several
            else []
        ),
        *_build_closer_bars(list_detailed_traces(analysis), bars),
    )
    return Section("time", _TITLE, blocks, nav="Time", intro=_build_intro(bars, to_scale=False)) if blocks else None


def build_split_section(
    traces: Sequence[RankTrace], bars: Sequence[Bar], what: str, none: str, caption: str = "", *, to_scale: bool = False
) -> Section:
    """Build the time split; `bars` sum to a step each, and below are the steps and streams of `traces`, each of which
    is a `what`."""
    if not bars:
        return Section("time", _TITLE, make_list("no-time", [none], style="empty"), nav="Time")
    whole = Bars(
        id="time-split",
        title="",
        bars=tuple(bars),
        label=f"Step time breakdown by {what}",
        caption=caption,
        to_scale=to_scale,
        weight=Weight.BRIEF,
    )
    return Section(
        "time",
        _TITLE,
        (whole, *_build_closer_bars(traces, bars)),
        nav="Time",
        intro=_build_intro(bars, to_scale=to_scale),
    )


def _build_intro(bars: Sequence[Bar], *, to_scale: bool) -> tuple[str, ...]:
    shown = {category for bar in bars for category in bar.categories}
    return (_TO_SCALE if to_scale else _SUM, *(text for category, text in _MEANING.items() if category in shown))


def _build_closer_bars(traces: Sequence[RankTrace], whole: Sequence[Bar]) -> tuple[Block, ...]:
    """Build the bars of steps and streams, without those equal to the trace's bar."""
    options: dict[tuple[str, ...], Block] = {}
    for place, trace in enumerate(traces):
        streams = "Threads" if is_cpu(trace.device) else "Streams"
        for kind, bars, of in (
            ("Steps", build_step_bars(trace), "of the step"),
            (streams, build_stream_bars(trace), "of the trace"),
        ):
            if bars and not (len(bars) == 1 and any(_is_alike(bars[0], bar) for bar in whole)):
                name = f"{kind} of {trace.label}"
                label = f"Time breakdown: {name[0].lower()}{name[1:]}"
                key = "steps" if kind == "Steps" else "streams"
                options[name,] = Bars(id=f"{key}-time-{place}", title="", bars=tuple(bars), label=label, whole=of)
    if not options:
        return ()
    return (
        Choice(id="time-more", title="By step and stream", keys=("Show",), options=options),
        *make_list("time-cut", [_CUT], style="caption"),
    )


def _is_alike(one: Bar, other: Bar) -> bool:
    """True where two bars show the same digits."""

    def said(bar: Bar) -> dict[str, str]:
        return {share.category: units.format_percent(share.share) for share in bar.shares if share.seconds > 0}

    return said(one) == said(other)


def build_trace_roofline(analysis: TraceAnalysis) -> tuple[Block, ...]:
    """The roofline of the traces in detail, or why it cannot be drawn."""
    trace = choose_focus_trace(analysis)
    reason = trace_headline.explain_missing_roofline(trace) if trace else ""
    blocks = build_roofline_section(build_plane(analysis), "trace", reason).blocks
    return tuple(replace(block, height=_BESIDE) if isinstance(block, Chart) else block for block in blocks)


def build_roofline_section(
    known: RooflinePlane, what: str, reason: str, arrow: str = "", weight: Weight = Weight.NORMAL
) -> Section:
    """Build the roofline of series that are a `what` each; `reason` says why roofs or dots are missing.

    `arrow` says from what to what one leads.
    """
    chart = roofline_chart.build_chart(known, f"{what.capitalize()}s")
    if chart is None and not reason:
        reason = _ONE_DOT if any(is_placeable(point) for point in known.points) else _NO_DOT
    blocks: list[Block] = [*make_list("no-roofline", [reason] if reason else [], style="empty")]
    if chart is not None:
        lines = (_WITHOUT_ROOFS if reason else _AXES, *([f"Arrows point from {arrow}."] if arrow else []))
        blocks += [Text(id="roofline-told", lines=lines), replace(chart, weight=weight)]
    return Section("roofline", "Roofline", tuple(blocks))
