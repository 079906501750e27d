"""The report on the memory of one file's devices."""

from dataclasses import replace

from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core import allocations, units
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.store.summary import MEMORY_REPORT_FILE, SUMMARY_FILE, ReportSummary, RowFigures, compute_digest
from perfkit_reports.cells import make_optional_cell
from perfkit_reports.document.blocks import Facts, Section, Tile
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import list_device_holders
from perfkit_reports.subjects import findings
from perfkit_reports.subjects.memory import memory_sentences
from perfkit_reports.subjects.memory.memory_tables import build_data
from perfkit_reports.subjects.memory.section import build_section
from perfkit_reports.subjects.memory.selected_memory import list_memory_items
from perfkit_reports.subjects.method import build_provenance

_NOT_RESERVED = "reserved memory was not recorded"


def build_document(analysis: MemoryAnalysis) -> Document:
    """Draw an account per device, the fullest first."""
    holders = sorted(list_device_holders(analysis.accounts), key=lambda holder: -holder.account.peak_bytes)
    return Document(
        kind="memory",
        title=analysis.title,
        eyebrow=(analysis.title, analysis.kind, analysis.created_at[:10]),
        headline=memory_sentences.build_headline(holders, analysis.findings),
        perfkit=analysis.perfkit,
        created_at=analysis.created_at,
        tiles=tuple(Tile(title, cell) for holder in holders[:1] for title, cell in _list_tiles(holder.account)),
        warnings=analysis.notes,
        sections=(
            build_section(holders, "device", weight=Weight.BRIEF, peak=Weight.BRIEF),
            findings.build_section(analysis.findings, "Device" if len(holders) > 1 else ""),
            Section(
                "method",
                "Method",
                (_build_method(analysis), build_provenance(analysis.provenance)),
                nav="Method",
                folded=True,
            ),
        ),
        data=build_data(holders, "device"),
        raw={MEMORY_REPORT_FILE: analysis, SUMMARY_FILE: summarize_memory(analysis)},
        saves=MEMORY_REPORT_FILE,
        chosen=lambda: tuple(list_memory_items(holders)),
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


def _list_tiles(account: MemoryAccount) -> list[tuple[str, Cell]]:
    """(title, figure) of each tile."""
    return [
        ("Peak", _make_peak_cell(account)),
        ("Largest part", _make_largest_cell(account)),
        ("Reserved but free", _make_free_cell(account)),
        *_list_last(account),
    ]


def _make_peak_cell(account: MemoryAccount) -> Cell:
    when = [account.peak_phase, "" if account.peak_step is None else f"step {account.peak_step}"]
    return Cell(units.format_bytes(account.peak_bytes), detail=", ".join(part for part in when if part))


def _make_largest_cell(account: MemoryAccount) -> Cell:
    if not account.categories or not account.peak_bytes:
        return make_unknown_cell("no memory was allocated")
    part = max(account.categories, key=lambda part: part.bytes)
    share = units.format_percent(part.bytes / account.peak_bytes, 0)
    return Cell(share, detail=f"{part.category}, {units.format_bytes(part.bytes)}")


def _make_free_cell(account: MemoryAccount) -> Cell:
    fragmentation = account.fragmentation
    if fragmentation is None:
        return make_unknown_cell(_NOT_RESERVED)
    largest = fragmentation.largest_free_bytes
    detail = "fragmentation unknown" if largest is None else f"largest block {units.format_bytes(largest)}"
    return Cell(units.format_bytes(fragmentation.free_bytes), detail=detail)


def _list_last(account: MemoryAccount) -> list[tuple[str, Cell]]:
    """The failed request, else growth, else unattributed bytes."""
    if account.failed_request is not None:
        requested = make_optional_cell(account.failed_request.bytes, units.format_bytes, "request size not recorded")
        failed = replace(requested, detail="failed request", tone="bad") if requested.known else requested
        return [("Requested", failed)]
    if account.growth:
        growth_bytes = sum(row.bytes_per_step for row in account.growth)
        return [("Growth", Cell(units.format_bytes(growth_bytes), detail="per step", tone="bad"))]
    unknown_bytes = sum(part.bytes for part in account.categories if part.category == allocations.UNKNOWN)
    share = unknown_bytes / account.peak_bytes if account.peak_bytes else 0.0
    return [("Unknown", Cell(units.format_percent(share), detail=f"{units.format_bytes(unknown_bytes)} unattributed"))]
