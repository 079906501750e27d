"""Bytes by category over a whole recording."""

from perfkit.allocations import CATEGORIES, Allocations, Ints
from perfkit.analysis.memory.classify import categories
from perfkit.analysis.memory.lives import lives_of
from perfkit.analysis.memory.timeline import series_over_all
from perfkit.analysis.memory.totals import totals_of


def over_all(allocations: Allocations) -> tuple[Ints, dict[str, Ints]] | None:
    """(nanoseconds, bytes by category at these times), thinned so that no maximum is lost; None without a block."""
    lives = lives_of(allocations)
    if not len(lives) or not len(allocations):
        return None
    totals = totals_of(lives, len(allocations))
    times, series = series_over_all(allocations, lives, categories(allocations, lives), totals)
    return times, {name: row for name, row in zip(CATEGORIES, series, strict=True) if row.any()}
