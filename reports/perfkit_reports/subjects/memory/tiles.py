"""Headline figures of a memory account."""

from dataclasses import replace

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core import allocations, units
from perfkit_reports.cells import make_optional_cell
from perfkit_reports.document.cells import Cell, make_unknown_cell

_NOT_RESERVED = "reserved memory was not recorded"


def list_tiles(account: MemoryAccount) -> list[tuple[str, Cell]]:
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
