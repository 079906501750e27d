"""The report on the memory of one file's devices."""

from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.core.record import Unknown, make_measurement
from perfkit.store.summary import MEMORY_REPORT_FILE, SUMMARY_FILE, ReportSummary, RowFigures, compute_digest
from perfkit_reports.document.blocks import Facts, Section, Tile
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import list_device_holders
from perfkit_reports.subjects import findings
from perfkit_reports.subjects.memory import memory_sentences
from perfkit_reports.subjects.memory.memory_tables import build_data
from perfkit_reports.subjects.memory.section import build_section
from perfkit_reports.subjects.memory.tiles import list_tiles
from perfkit_reports.subjects.method import build_provenance


def build_document(analysis: MemoryAnalysis) -> Document:
    """Draw an account per device, the fullest first."""
    holders = sorted(list_device_holders(analysis.accounts), key=lambda holder: -holder.account.peak_bytes)
    return Document(
        kind="memory",
        title=analysis.title,
        eyebrow=(analysis.title, analysis.kind, analysis.created_at[:10]),
        headline=memory_sentences.build_headline(holders),
        perfkit=analysis.perfkit,
        created_at=analysis.created_at,
        tiles=tuple(Tile(title, cell) for holder in holders[:1] for title, cell in list_tiles(holder.account)),
        warnings=analysis.notes,
        sections=(
            findings.build_section(analysis.findings, "Device" if len(holders) > 1 else ""),
            build_section(holders, "device", weight=Weight.BRIEF, peak=Weight.BRIEF),
            Section(
                "method",
                "Method",
                (_build_method(analysis), build_provenance(analysis.provenance)),
                nav="Method",
            ),
        ),
        data=build_data(holders, "device"),
        raw={MEMORY_REPORT_FILE: analysis, SUMMARY_FILE: summarize_memory(analysis)},
        saves=MEMORY_REPORT_FILE,
    )


def _build_method(analysis: MemoryAnalysis) -> Facts:
    items = [("File", Cell(analysis.file)), ("Kind", Cell(analysis.kind))]
    items += [("Command", Cell(analysis.command))] if analysis.command else []
    return Facts(id="method-file", items=(*items, ("perfkit", Cell(analysis.perfkit))))


def summarize_memory(analysis: MemoryAnalysis) -> ReportSummary:
    """The entry in a list of reports: the peak of the fullest device."""
    fullest = max(analysis.accounts, key=lambda account: account.peak_bytes, default=None)
    absent = Unknown(reason="not in a memory recording")
    none = Unknown(reason="the recording contains no allocations")
    return ReportSummary(
        kind="memory",
        name=analysis.title,
        created_at=analysis.created_at,
        device=fullest.device if fullest is not None else "",
        sources=compute_digest([analysis.file]),
        figures=RowFigures(
            subject=fullest.device if fullest is not None and len(analysis.accounts) > 1 else "",
            step=absent,
            throughput=absent,
            peak=none if fullest is None else make_measurement(fullest.peak_bytes, "bytes", fullest.source),
            mfu=absent,
        ),
    )
