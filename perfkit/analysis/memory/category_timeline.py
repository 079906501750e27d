"""Bytes by category over a whole recording."""

from perfkit.analysis.memory.allocation_lifetimes import build_lifetimes
from perfkit.analysis.memory.classify import classify_blocks
from perfkit.analysis.memory.memory_timeline import build_full_series
from perfkit.analysis.memory.totals import compute_totals
from perfkit.core.allocations import CATEGORIES, Allocations, Ints


def build_category_timeline(allocations: Allocations) -> tuple[Ints, dict[str, Ints]] | None:
    """(nanoseconds, bytes by category at these times), thinned so that no maximum is lost; None without a block."""
    lives = build_lifetimes(allocations)
    if not len(lives) or not len(allocations):
        return None
    totals = compute_totals(lives, len(allocations))
    times, series = build_full_series(allocations, lives, classify_blocks(allocations, lives), totals)
    return times, {name: row for name, row in zip(CATEGORIES, series, strict=True) if row.any()}
