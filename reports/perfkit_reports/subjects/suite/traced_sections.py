"""Sections on the traced steps and the recorded memory of a suite: why variants differ, and one picker for the rest."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.model.trace import RankTrace
from perfkit.core import units
from perfkit_reports.charts import memory_peak
from perfkit_reports.document.blocks import Bar, Block, Group, Section, Text
from perfkit_reports.document.pick import Pick
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects import method
from perfkit_reports.subjects.memory.section import build_section as build_memory_section
from perfkit_reports.subjects.suite.chart_styles import build_plane, limit_rows, list_holders, list_traces
from perfkit_reports.subjects.trace import flame, operations, several_devices, step, timeline

_UNTRACED = "not traced"
_TIMELINE_ROOM = 270_000  # characters of a page: the tables of all variants need room, too
_CLOCK = "Timelines show traced steps, with the profiler's slowdown{}; all other times are those of timed steps."


def build_why_section(analysis: Analysis, what: str, untraced: str) -> Iterator[Section]:
    """Time and memory of each variant as bars to scale, side by side in the order of the table; nothing without both.

    `what` names a row of the suite, `untraced` explains a missing trace.
    """
    split = _split_step(analysis, what, untraced)
    time = tuple(block for block in split.blocks if block.id != "time-more" and block.id != "time-cut")
    meaning = [Text(id="time-meaning", lines=split.intro, style="caption")] if split.intro else []
    drawn = memory_peak.build_chart(list_holders(analysis), what, Weight.BRIEF, None)
    peaks = None if drawn is None else replace(drawn, title="")
    none = Text(id="no-memory", lines=("No memory was recorded.",), style="empty")
    blocks: tuple[Block, ...] = (
        Group(id="why-time", title="Step time", blocks=(*time, *meaning), weight=Weight.BRIEF),
        Group(id="why-memory", title="Peak memory", blocks=(peaks or none,), weight=Weight.BRIEF),
    )
    # Of a loop that was not observed, the reason is worth a section.
    if peaks is not None or not isinstance(time[0], Text) or analysis.variants[0].loop is not None:
        bars = Group(id="why-bars", blocks=blocks, beside=True, weight=Weight.BRIEF)
        yield Section("why", "Time and memory", (bars,))


def _split_step(analysis: Analysis, what: str, untraced: str) -> Section:
    bars = [bar for variant in analysis.variants if (bar := _build_bar(variant, alone=len(analysis.variants) == 1))]
    traced = any(variant.time_split for variant in analysis.variants)
    return step.build_split_section(list_traces(analysis), bars if traced else [], what, untraced, to_scale=True)


def _build_bar(variant: Variant, *, alone: bool) -> Bar | None:
    """The shares of a variant's traced step in its timed step; one part where it was timed and not traced."""
    split, time = variant.time_split, variant.step_time
    if not isinstance(time, MedianEstimate):
        return Bar(variant.name, split) if split else None
    parts = [structs.replace(share, seconds=share.share * time.value) for share in split]
    parts = parts or [TimeShare(category=_UNTRACED, seconds=time.value, share=1.0)]
    return Bar(variant.name if alone else f"{variant.name}, {units.format_seconds(time.value)}", tuple(parts))


def build_traced_section(analysis: Analysis, what: str, arrow: str) -> Iterator[Section]:
    """Timeline, flame graph, roofline and ops of the picked variant; nothing without a trace.

    `arrow` describes a roofline arrow.
    """
    traced = list_traces(analysis)
    if not traced:
        return
    drawn = build_plane(analysis)
    none = "No cost model for its operations." if any(trace.ops for trace in traced) else ""
    if drawn.points:
        none = "" if any(series.ceilings for series in drawn.series) else method.WITHOUT_CEILINGS
    several = len(traced) > 1
    sections = (
        timeline.build_section(traced, _TIMELINE_ROOM),
        flame.build_section(traced, _map_to_baseline(analysis, traced), what),
        step.build_roofline_section(drawn, what, none, arrow if several else "", Weight.BRIEF),
        operations.build_section(traced, what, "", limit_rows(traced), Weight.NORMAL),
    )
    names = tuple(trace.label for trace in traced)
    picker = [Pick(id="picker", key=what.capitalize(), label=what.capitalize(), values=names)] if several else []
    groups = [group_section(section) for section in sections if section is not None]
    yield Section("traced", "Traced step", (*picker, *groups), nav="Traced step", intro=(_describe_clock(traced),))


def _describe_clock(traced: Sequence[RankTrace]) -> str:
    """The traced step over the timed one, of each trace."""
    known = [trace for trace in traced if trace.timed_ratio]
    ratios = [f"{trace.label} {1 / trace.timed_ratio:.2f}×" for trace in known if trace.timed_ratio]
    return _CLOCK.format(f" ({', '.join(ratios)})" if ratios else "")


def group_section(section: Section) -> Group:
    """A section as a part of another."""
    intro = [Text(id=f"{section.id}-intro", lines=section.intro, style="caption")] if section.intro else []
    weight = min((block.weight for block in section.blocks), default=Weight.NORMAL)
    return Group(id=f"traced-{section.id}", title=section.title, blocks=(*intro, *section.blocks), weight=weight)


def build_trace_details(analysis: Analysis, what: str) -> Iterator[Section]:
    """Memory in detail, the time of steps and streams, and the devices of a trace with several."""
    traced = list_traces(analysis)
    if holders := list_holders(analysis):
        yield build_memory_section(holders, what, peaks=())
    closer = tuple(block for block in _split_step(analysis, what, "").blocks if block.id in ("time-more", "time-cut"))
    if closer:
        yield Section("time", "Time by step and stream", closer, nav="Steps")
    if (devices := several_devices.build_section(traced)) is not None:
        yield devices


def _map_to_baseline(analysis: Analysis, traced: Sequence[RankTrace]) -> dict[str, RankTrace]:
    """The baseline's trace for each other trace."""
    baseline = next((variant.name for variant in analysis.variants if variant.is_baseline), "")
    before = next((trace for trace in traced if trace.label == baseline), None)
    return {trace.label: before for trace in traced if trace is not before} if before else {}
