"""What an analysis of traces says, as a document."""

from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.store.summary import SUMMARY_FILE, TRACE_REPORT_FILE
from perfkit_reports.document.blocks import Section
from perfkit_reports.document.document import Document
from perfkit_reports.subjects import findings, memory
from perfkit_reports.subjects.trace import costs, device, explained, headline, products, ranks, replayed, step
from perfkit_reports.subjects.trace.data import data
from perfkit_reports.subjects.trace.series import memory_holders
from perfkit_reports.subjects.trace.summary import summary


def _memory(analysis: TraceAnalysis) -> Section | None:
    """What fills the memory of the traces that recorded it."""
    holders = memory_holders(analysis)
    return memory.section(holders, "trace") if holders else None


_SECTIONS = (
    step.changes,
    step.time,
    replayed.replayed,
    step.roofline,
    costs.savings,
    products.products,
    _memory,
    ranks.ranks,
    device.launches,
    device.transfers,
    explained.coverage,
    explained.method,
)


def document(analysis: TraceAnalysis) -> Document:
    """Sections that have nothing to say are left out."""
    found = findings.section(analysis.findings, "Trace" if len(analysis.traces) > 1 else "")
    told = [section for make in _SECTIONS if (section := make(analysis)) is not None]
    return Document(
        kind="trace",
        title=analysis.title,
        headline=headline.headline(analysis),
        perfkit=analysis.perfkit,
        created_at=analysis.created_at,
        eyebrow=(analysis.title, analysis.created_at[:10]),
        lead=tuple(headline.remarks(analysis)),
        tiles=tuple(headline.tiles(analysis)),
        warnings=analysis.warnings,
        sections=(found, *told),
        data=data(analysis),
        raw={TRACE_REPORT_FILE: analysis, SUMMARY_FILE: summary(analysis)},
    )
