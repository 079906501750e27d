"""Series of traces for figures: rooflines and time bars, limited to a readable number."""

import msgspec

from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.trace.trace_memory import make_fullness_key
from perfkit.core import units
from perfkit.devices.accelerator import is_cpu
from perfkit_reports.charts.roofline import LEVEL
from perfkit_reports.charts.roofline_plane import RooflinePlane, RooflineSeries, select_ceilings
from perfkit_reports.document.blocks import Bar
from perfkit_reports.holders import Holder, list_trace_holders
from perfkit_reports.palette import assign_styles
from perfkit_reports.wording import format_plural

DETAILED = 4  # traces with tables and a layer of the roofline
SHOWN_AT_FIRST = 2
BARS = 16  # in a figure of bars


def list_traces(analysis: TraceAnalysis) -> tuple[RankTrace, ...]:
    """All traces of the analysis, including the comparison trace."""
    return (*analysis.traces, *((analysis.difference.before_trace,) if analysis.difference else ()))


def choose_focus_trace(analysis: TraceAnalysis) -> RankTrace | None:
    """The trace to show first: the slowest rank of a job, the compared trace, or the first."""
    labels = [fleet.straggler for fleet in analysis.fleets]
    if analysis.difference:
        labels.insert(0, analysis.difference.after)
    by_label = {trace.label: trace for trace in analysis.traces}
    chosen = next((by_label[label] for label in labels if label in by_label), None)
    return chosen or next(iter(analysis.traces), None)


def list_detailed_traces(analysis: TraceAnalysis) -> tuple[RankTrace, ...]:
    """The traces shown in detail: the first to look at, its comparison trace, then the others."""
    first = choose_focus_trace(analysis)
    before = analysis.difference.before if analysis.difference else ""
    ordered = sorted(list_traces(analysis), key=lambda trace: (trace is not first, trace.label != before))
    return tuple(ordered[:DETAILED])


def list_memory_holders(analysis: TraceAnalysis) -> list[Holder]:
    """The memory of the detailed traces; the trace that ran out of memory or has the highest peak comes first."""
    holders = sorted(
        list_trace_holders(list_traces(analysis)), key=lambda holder: make_fullness_key(holder.account), reverse=True
    )
    shown = {trace.label for trace in list_detailed_traces(analysis)}
    return holders[:1] + [holder for holder in holders[1:] if holder.name in shown]


def build_plane(analysis: TraceAnalysis) -> RooflinePlane:
    """The points of the traces in detail; an arrow leads from the trace before a change to the one after it."""
    difference = analysis.difference
    traces = list_detailed_traces(analysis)
    look = assign_styles(
        [(trace.label, difference is not None and trace.label == difference.before) for trace in traces]
    )
    return RooflinePlane(
        tuple(
            RooflineSeries(
                trace.label,
                trace.points + _list_level_points(trace),
                look[trace.label],
                place < SHOWN_AT_FIRST,
                difference.before if difference and trace.label == difference.after else "",
                trace.device_name,
                select_ceilings(trace.ceilings, None),
            )
            for place, trace in enumerate(traces)
        )
    )


def _list_level_points(trace: RankTrace) -> tuple[OpRow, ...]:
    """Counted kernels by the traffic of each level of memory, as a layer of their own."""
    return tuple(
        msgspec.structs.replace(point, kind=LEVEL, name=f"{point.name} ({point.level})") for point in trace.level_points
    )


def build_trace_bars(analysis: TraceAnalysis) -> list[Bar]:
    """Time split of each trace, first before a change; of many the slowest, the median and the fastest."""
    difference = analysis.difference
    when = {difference.before: "before: ", difference.after: "now: "} if difference else {}
    traces = [trace for trace in list_traces(analysis) if trace.time_split]
    if len(traces) > BARS:
        slowest = sorted(traces, key=lambda trace: -trace.step_s)
        places = {"slowest: ": 0, "median: ": len(slowest) // 2, "fastest: ": len(slowest) - 1}
        chosen = {slowest[place].label: word for word, place in places.items()} | when
        traces = [trace for trace in slowest if trace.label in chosen]
        when = chosen
    ordered = sorted(traces, key=lambda trace: not when.get(trace.label, "").startswith("before"))
    return [build_trace_bar(trace, when.get(trace.label, "")) for trace in ordered]


def build_trace_bar(trace: RankTrace, when: str = "") -> Bar:
    """Build the bar of a trace's step, its name after `when` (`now: `)."""
    return Bar(f"{when}{trace.label}, {units.format_seconds(trace.step_s)}", trace.time_split)


def build_step_bars(trace: RankTrace) -> list[Bar]:
    """Build the bars of a trace's steps, in order; the slowest ones where there are many."""
    slowest = {id(step) for step in sorted(trace.steps, key=lambda step: -step.seconds)[:BARS]}
    return [
        Bar(f"step {step.number}, {units.format_seconds(step.seconds)}", step.time_split)
        for step in trace.steps
        if step.time_split and id(step) in slowest
    ]


def build_stream_bars(trace: RankTrace) -> list[Bar]:
    """The busiest streams of a trace; on a CPU the threads."""
    busiest = sorted(trace.streams, key=lambda stream: -stream.busy_s)[:BARS]
    what = ("thread", "op") if is_cpu(trace.device) else ("stream", "kernel")
    several = len({stream.device for stream in trace.streams}) > 1
    return [
        Bar(
            (f"device {stream.device}, " if several else "")
            + f"{what[0]} {stream.stream}: {format_plural(stream.kernels, what[1])}, "
            f"busy {units.format_seconds(stream.busy_s)}",
            stream.split,
        )
        for stream in busiest
        if stream.split
    ]
