"""The document of an analysis of traces."""

from dataclasses import replace

from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.store.summary import SUMMARY_FILE, TRACE_REPORT_FILE
from perfkit_reports.document.blocks import Group, Section
from perfkit_reports.document.document import Document
from perfkit_reports.subjects import findings, memory
from perfkit_reports.subjects.tables import make_list
from perfkit_reports.subjects.trace import (
    coverage,
    critical_path,
    device,
    flame,
    idle,
    operations,
    ranks,
    several_devices,
    step,
    timeline,
    trace_changes,
    trace_headline,
)
from perfkit_reports.subjects.trace.fixes import build_fixes
from perfkit_reports.subjects.trace.selected_items import list_selected_items
from perfkit_reports.subjects.trace.series import list_detailed_traces, list_memory_holders
from perfkit_reports.subjects.trace.tiles import build_badges, build_tiles
from perfkit_reports.subjects.trace.trace_data import build_data
from perfkit_reports.subjects.trace.trace_summary import summarize_analysis


def _build_findings_section(analysis: TraceAnalysis) -> Section:
    several = len(analysis.traces) > 1
    return findings.build_section(analysis.findings, "Trace" if several else "", traces=analysis.traces)


def _build_memory_section(analysis: TraceAnalysis) -> Section | None:
    """Memory of the traces that recorded it."""
    holders = list_memory_holders(analysis)
    return memory.build_section(holders, "trace", timelines=False) if holders else None


def _build_roofline_and_memory(analysis: TraceAnalysis) -> Section:
    """The roofline beside memory over time; where one is unknown, the reason."""
    holders = list_memory_holders(analysis)
    over_time = memory.build_timelines(holders, "trace") or make_list("no-memory", [_NO_MEMORY], style="empty")
    sides = (
        Group(id="roofline-side", title="Roofline", blocks=step.build_trace_roofline(analysis)),
        Group(id="memory-side", title="Memory", blocks=over_time),
    )
    both = Group(id="roofline-and-memory", blocks=sides, beside=True)
    return Section("roofline", "Roofline and memory", (both,), nav="Roofline, memory")


_NO_MEMORY = "Memory unknown: no allocations recorded. Record with profile_memory=True."
_SECTIONS = (
    trace_changes.build_section,
    ranks.build_ranks_section,
    timeline.build_timeline_section,
    operations.build_operations_section,
    _build_roofline_and_memory,
)
# On a page behind "Details".
_DETAILS = (
    _build_findings_section,
    step.build_time_section,
    several_devices.build_devices_section,
    critical_path.build_replay_section,
    idle.build_idle_section,
    device.build_launches_section,
    flame.build_flame_section,
    _build_memory_section,
    device.build_transfers_section,
    ranks.build_pipeline_section,
    coverage.build_coverage_section,
    coverage.build_method_section,
)


def build_document(analysis: TraceAnalysis) -> Document:
    """Sections that have nothing to say are left out."""
    shown = [section for make in _SECTIONS if (section := make(analysis)) is not None]
    details = [replace(section, folded=True) for make in _DETAILS if (section := make(analysis)) is not None]
    return Document(
        kind="trace",
        title=analysis.title,
        headline=trace_headline.build_headline(analysis),
        perfkit=analysis.perfkit,
        created_at=analysis.created_at,
        eyebrow=(analysis.title, analysis.created_at[:10]),
        lead=tuple(trace_headline.list_remarks(analysis)),
        badges=tuple(build_badges(analysis)),
        first=(*step.build_time_bar(analysis), build_fixes(analysis)),
        tiles=tuple(build_tiles(analysis)),
        warnings=(*analysis.warnings, *trace_changes.list_caveats(analysis)),
        sections=(*shown, *details),
        data=build_data(analysis),
        raw={TRACE_REPORT_FILE: analysis, SUMMARY_FILE: summarize_analysis(analysis)},
        chosen=lambda: (
            *list_selected_items(list_detailed_traces(analysis), operations.get_row_limit(analysis), analysis.findings),
            *memory.list_memory_items(list_memory_holders(analysis)),
        ),
    )
