"""What an analysis of traces says, as a document."""

from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.store.summary import SUMMARY_FILE, TRACE_REPORT_FILE
from perfkit_reports.document.blocks import Section
from perfkit_reports.document.document import Document
from perfkit_reports.subjects import findings, memory
from perfkit_reports.subjects.trace import (
    changes,
    costs,
    device,
    explained,
    flame,
    headline,
    idle,
    products,
    ranks,
    replayed,
    step,
    timeline,
)
from perfkit_reports.subjects.trace.chosen import chosen
from perfkit_reports.subjects.trace.data import data
from perfkit_reports.subjects.trace.series import detailed, memory_holders
from perfkit_reports.subjects.trace.summary import summary
from perfkit_reports.subjects.trace.tiles import tiles


def _memory(analysis: TraceAnalysis) -> Section | None:
    """What fills the memory of the traces that recorded it."""
    holders = memory_holders(analysis)
    return memory.section(holders, "trace") if holders else None


_SECTIONS = (
    changes.section,
    step.time,
    timeline.timeline,
    replayed.replayed,
    idle.idle,
    flame.flames,
    step.roofline,
    costs.savings,
    products.products,
    _memory,
    ranks.ranks,
    ranks.pipeline,
    device.launches,
    device.transfers,
    explained.coverage,
    explained.method,
)


def document(analysis: TraceAnalysis) -> Document:
    """Sections that have nothing to say are left out."""
    found = findings.section(analysis.findings, "Trace" if len(analysis.traces) > 1 else "", traces=analysis.traces)
    told = [section for make in _SECTIONS if (section := make(analysis)) is not None]
    return Document(
        kind="trace",
        title=analysis.title,
        headline=headline.headline(analysis),
        perfkit=analysis.perfkit,
        created_at=analysis.created_at,
        eyebrow=(analysis.title, analysis.created_at[:10]),
        lead=tuple(headline.remarks(analysis)),
        tiles=tuple(tiles(analysis)),
        warnings=(*analysis.warnings, *changes.caveats(analysis)),
        sections=(found, *told),
        data=data(analysis),
        raw={TRACE_REPORT_FILE: analysis, SUMMARY_FILE: summary(analysis)},
        chosen=lambda: chosen(detailed(analysis), costs.limit(analysis), analysis.findings),
    )
