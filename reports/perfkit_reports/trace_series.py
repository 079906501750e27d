"""Traces as what the figures draw: series on a roofline, bars of time. What is too much to look at is cut here."""

import msgspec

from perfkit import units
from perfkit.analysis.result import RooflinePoint
from perfkit.analysis.traces.result import RankTrace, TraceAnalysis, TraceDifference
from perfkit_reports.bars import Bar
from perfkit_reports.cells import plural
from perfkit_reports.figures.roofline import LEVEL
from perfkit_reports.palette import styles
from perfkit_reports.plane import Plane, Series, applicable

DETAILED = 4  # traces with tables and a layer of the roofline
SHOWN_AT_FIRST = 2
POINTS = 250  # dots of a kind and trace: the longest
BARS = 16  # in a figure of bars


def focus(analysis: TraceAnalysis) -> RankTrace | None:
    """The trace to look at first: the slowest rank of a job, what is compared with something, or the first."""
    labels = [analysis.fleet.straggler] if analysis.fleet else []
    if analysis.difference:
        labels.insert(0, analysis.difference.after)
    by_label = {trace.label: trace for trace in analysis.traces}
    chosen = next((by_label[label] for label in labels if label in by_label), None)
    return chosen or next(iter(analysis.traces), None)


def detailed(analysis: TraceAnalysis) -> tuple[RankTrace, ...]:
    """The traces that are shown in detail: the one to look at first, what it is compared with, then the others."""
    first = focus(analysis)
    before = analysis.difference.before if analysis.difference else ""
    ordered = sorted(analysis.traces, key=lambda trace: (trace is not first, trace.label != before))
    return tuple(ordered[:DETAILED])


def plane(analysis: TraceAnalysis) -> Plane:
    """The points of the traces in detail; an arrow leads from the trace before a change to the one after it."""
    difference = analysis.difference
    traces = detailed(analysis)
    look = styles([(trace.label, difference is not None and trace.label == difference.before) for trace in traces])
    return Plane(
        tuple(
            Series(
                trace.label,
                _weighty(trace.points) + _weighty(_levels(trace)),
                look[trace.label],
                place < SHOWN_AT_FIRST,
                difference.before if difference and trace.label == difference.after else "",
            )
            for place, trace in enumerate(traces)
        ),
        applicable(analysis.ceilings, None),
    )


def _levels(trace: RankTrace) -> tuple[RooflinePoint, ...]:
    """Counted kernels by the traffic of each level of memory, as a layer of their own."""
    return tuple(
        msgspec.structs.replace(point, kind=LEVEL, name=f"{point.name} ({point.level})") for point in trace.level_points
    )


def _weighty(points: tuple[RooflinePoint, ...]) -> tuple[RooflinePoint, ...]:
    """The longest points of each kind."""
    kept: list[RooflinePoint] = []
    for kind in dict.fromkeys(point.kind for point in points):
        same = [point for point in points if point.kind == kind]
        kept += sorted(same, key=lambda point: -point.seconds)[:POINTS]
    return tuple(kept)


def trace_bars(analysis: TraceAnalysis) -> list[Bar]:
    """Where the step of each trace goes, the slowest traces where there are many."""
    traces = [trace for trace in analysis.traces if trace.time_split]
    slowest = sorted(traces, key=lambda trace: -trace.step_s)[:BARS]
    return [
        Bar(f"{trace.label}, {units.seconds(trace.step_s)}", trace.time_split) for trace in traces if trace in slowest
    ]


def change_bars(difference: TraceDifference) -> list[Bar]:
    """Where the step went before a change and after it."""
    sides = (
        ("before", difference.before, difference.before_step_s, difference.before_split),
        ("now", difference.after, difference.after_step_s, difference.after_split),
    )
    return [Bar(f"{when}: {label}, {units.seconds(step_s)}", split) for when, label, step_s, split in sides if split]


def step_bars(trace: RankTrace) -> list[Bar]:
    """The steps of a trace, in order; the slowest ones where there are many."""
    slowest = {id(step) for step in sorted(trace.steps, key=lambda step: -step.seconds)[:BARS]}
    return [
        Bar(f"step {step.number}, {units.seconds(step.seconds)}", step.time_split)
        for step in trace.steps
        if step.time_split and id(step) in slowest
    ]


def stream_bars(trace: RankTrace) -> list[Bar]:
    """The busiest streams of a trace; on a CPU the threads."""
    busiest = sorted(trace.streams, key=lambda stream: -stream.busy_s)[:BARS]
    what = ("thread", "op") if trace.device == "cpu" else ("stream", "kernel")
    several = len({stream.device for stream in trace.streams}) > 1
    return [
        Bar(
            (f"device {stream.device}, " if several else "")
            + f"{what[0]} {stream.stream}: {plural(stream.kernels, what[1])}, busy {units.seconds(stream.busy_s)}",
            stream.split,
        )
        for stream in busiest
        if stream.split
    ]
