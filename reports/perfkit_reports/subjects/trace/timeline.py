"""Timelines of steps: the selection of a report, and the first one's lanes in words."""

import shlex
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from perfkit.analysis.model import timeline as lanes
from perfkit.analysis.model.timeline import StepTimeline, TimelineLane
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.timeline.dense_slices import MOST_SLICES
from perfkit.analysis.timeline.lane_columns import list_label_texts, unpack_lane
from perfkit.analysis.timeline.step_packing import pack_step
from perfkit.analysis.timeline.step_timeline import WINDOW
from perfkit.core import units
from perfkit.cost.calls.op_call import OpClass
from perfkit_reports.cells import format_factor, make_integer_cell, make_seconds_cell, make_share_cell, make_text_cell
from perfkit_reports.document.blocks import Group, Section, Table, Timeline
from perfkit_reports.document.pick import Pick
from perfkit_reports.document.tables import Column
from perfkit_reports.palette import WorkStyle, get_slice_style
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.subjects.trace.series import list_detailed_traces
from perfkit_reports.wording import format_plural

# Characters of a page for steps, compressed: of further steps as many as there is room for.
ROOM = 450_000
_LETTERS = 4 / 3  # characters of a byte
_LONGEST = 10  # idle times in the table
_FITS = 0.8  # of as many slices as a page has room for: a part of a step may have more than its share
_LONGER = 0.01  # than the step: the time from its launches to its end

_LANES: tuple[Column[tuple[TimelineLane, int]], ...] = (
    Column("Lane", lambda row: make_text_cell(row[0].name), numeric=False),
    Column("Slices", lambda row: make_integer_cell(row[0].slices)),
    Column("Busy", lambda row: make_seconds_cell(row[0].busy_ns / 1e9), help="time with at least one slice running"),
    Column("% of time shown", lambda row: make_share_cell(row[0].busy_ns / row[1]), meter=True),
)
_IDLE: tuple[Column[tuple[int, int, str, str]], ...] = (
    Column("Cause", lambda row: make_text_cell(row[2]), numeric=False),
    Column("Starts at", lambda row: make_seconds_cell(max(row[0], 0) / 1e9), help="from the start of the step"),
    Column("Idle", lambda row: make_seconds_cell(row[1] / 1e9)),
    Column("CPU activity", lambda row: make_text_cell(row[3]), numeric=False, wrap=True),
)


def build_timeline_section(analysis: TraceAnalysis) -> Section | None:
    """The steps of the traces in detail, below the choice of one for the page; None where none has any."""
    traces = list_detailed_traces(analysis)
    section = build_section(traces)
    if section is None or len(traces) < 2:
        return section
    label = "Rank" if analysis.fleets else "Trace"
    pick = Pick(id="pick-trace", key="Trace", label=label, values=tuple(trace.label for trace in traces))
    return replace(section, blocks=(pick, *section.blocks))


def build_section(traces: Sequence[RankTrace], room: int | None = None) -> Section | None:
    """Build the section, with as many steps as `room` has characters for (`ROOM` if None); the first is always
    shown."""
    selected = tuple(_select_steps(traces, ROOM if room is None else room))
    if not selected:
        return None
    steps = {name: step for name, _, step in selected}
    commands = {name: _make_command(trace) for name, trace, step in selected if step.merged_slices}
    name, first = next(iter(steps.items()))
    block = Timeline(
        id="timeline",
        label=f"Timeline of {name}: {', '.join(_count_contents(first))}",
        steps=steps,
        looks={kind: (look.name, look.color, look.pattern) for kind, look in _list_looks(steps.values())},
        caption=" ".join(filter(None, (_describe_clock(traces), _describe_merged(first, commands.get(name, ""))))),
        commands=commands,
        words=Group(id="timeline-words", blocks=(*_build_lanes_table(name, first), *_build_idle_table(name, first))),
    )
    return Section("timeline", "Timeline", (block,))


def _count_contents(step: StepTimeline) -> Iterator[str]:
    yield f"{format_plural(step.slices, 'slice')} in {format_plural(len(step.lanes), 'lane')}"
    if step.counters:
        yield format_plural(len(step.counters), "counter")


def _select_steps(traces: Sequence[RankTrace], whole_room: int) -> Iterator[tuple[str, RankTrace, StepTimeline]]:
    """Select steps by name, with their traces: the first of each, then further ones while there is room."""
    room = whole_room
    firsts = [(trace, step) for trace in traces for step in trace.timelines[:1]]
    others = [(trace, step) for trace in traces for step in trace.timelines[1:]]
    for trace, step in (*firsts, *others):
        size = _measure_size(step)
        if size <= room or room == whole_room:
            room -= size
            yield _format_name(trace, step, several=len(traces) > 1), trace, step


def _measure_size(step: StepTimeline) -> int:
    return int(_LETTERS * len(zlib.compress(pack_step(step))))


def _format_name(trace: RankTrace, step: StepTimeline, *, several: bool) -> str:
    """`rank 0, step 12 (median), 34.9 ms`, with the time shown where its launches take longer than it.

    Its times are the trace's: `traced 34.9 ms` where steps were timed without a profiler.
    """
    if step.selection == WINDOW:
        begin, end = (_format_time(seconds) for seconds in (step.start_s, step.start_s + step.length_ns / 1e9))
        return f"{trace.label}, {begin} to {end}" if several else f"{begin} to {end} of the trace"
    what = "whole trace" if step.number is None else f"step {step.number}"
    why = f" ({step.selection})" if step.selection else ""
    whose = f"{trace.label}, " if several else ""
    shown_s = step.length_ns / 1e9
    rows = (row.seconds / (trace.timed_ratio or 1.0) for row in trace.steps if row.number == step.number)
    length_s = next(rows, shown_s)
    traced = "" if trace.timed_ratio is None else "traced "
    shown = f"; {units.format_seconds(shown_s)} with its launches" if shown_s > (1 + _LONGER) * length_s else ""
    return f"{whose}{what}{why}, {traced}{units.format_seconds(length_s)}{shown}"


def _list_looks(steps: Iterable[StepTimeline]) -> list[tuple[str, WorkStyle]]:
    """The look of every kind of slice, in the order of op classes, then of appearance."""
    kinds = dict.fromkeys(kind for step in steps for kind in list_label_texts(step, "kind"))
    classes = [kind for kind in OpClass if kind in kinds]
    return [(kind, get_slice_style(kind)) for kind in (*classes, *(kind for kind in kinds if kind not in classes))]


def _describe_clock(traces: Sequence[RankTrace]) -> str:
    """How much longer traced steps take than the timed ones that the rest of the report tells of."""
    slowdowns = sorted(1 / trace.timed_ratio for trace in traces if trace.timed_ratio)
    if not slowdowns:
        return ""
    ends = dict.fromkeys(map(format_factor, (slowdowns[0], slowdowns[-1])))
    return f"Traced times; profiler slowdown {' to '.join(ends)}."


def _describe_merged(step: StepTimeline, command: str) -> str:
    if not command:
        return ""
    longest = units.format_seconds(step.shortest_ns / 1e9)
    merged = format_plural(step.merged_slices, "slice")
    part = _FITS * MOST_SLICES / step.slices * step.length_ns / 1e9
    begin, end = _format_time(step.start_s), _format_time(step.start_s + part)
    return (
        f"{merged} of at most {longest} drawn as dense stretches; search counts and sums each. "
        f"{command} --window {begin}:{end} writes a page with every slice of that time."
    )


def _make_command(trace: RankTrace) -> str:
    return shlex.join(("perfkit", "analyze", trace.file_info.path))


def _format_time(seconds: float) -> str:
    """`1.2034s`, to a microsecond, as `--window` takes it."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def _build_lanes_table(name: str, step: StepTimeline) -> tuple[Table, ...]:
    rows = [(lane, step.length_ns) for lane in step.lanes]
    return make_table("timeline-lanes", f"Lanes of {name}", _LANES, rows, "lane", data="", limit=None)


def _build_idle_table(name: str, step: StepTimeline) -> tuple[Table, ...]:
    rows: list[tuple[int, int, str, str]] = []
    causes, places = list_label_texts(step, "kind"), list_label_texts(step, "shapes")
    for lane in step.lanes:
        if lane.kind == lanes.IDLE:
            gaps = unpack_lane(lane)
            labels = gaps.label.tolist()
            texts = [causes[label] for label in labels], [places[label] for label in labels]
            rows += zip(gaps.start_ns.tolist(), (gaps.end_ns - gaps.start_ns).tolist(), *texts, strict=True)
    longest = sorted(rows, key=lambda row: -row[1])[:_LONGEST]
    return make_table("timeline-idle", f"Longest idle gaps of {name}", _IDLE, longest, "gap", data="", limit=None)
