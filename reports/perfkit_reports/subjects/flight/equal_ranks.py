"""Rows of a table of ranks: one for each rank, or for all ranks that are at the same call where there are many."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

MOST_RANKS = 64  # with a row each; a page has as many rows at most

Row = TypeVar("Row")


class EqualRanks(NamedTuple, Generic[Row]):
    """Ranks at the same call, and the rows of these ranks."""

    ranks: tuple[int, ...]
    rows: tuple[Row, ...]


def merge_equal_ranks(
    rows: Sequence[Row], rank: Callable[[Row], int], call: Callable[[Row], Hashable]
) -> tuple[EqualRanks[Row], ...]:
    """A row for each rank; of more than `MOST_RANKS` a row for each call, those of the fewest ranks first."""
    if len(rows) <= MOST_RANKS:
        return tuple(EqualRanks((rank(row),), (row,)) for row in rows)
    groups: defaultdict[Hashable, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=rank):
        groups[call(row)].append(row)
    merged = [EqualRanks(tuple(map(rank, group)), tuple(group)) for group in groups.values()]
    return tuple(sorted(merged, key=lambda one: (len(one.ranks), one.ranks[0])))


def format_rank_ranges(ranks: Sequence[int], most: int = 8) -> str:
    """`0-4, 6-4095`; after the first `most` ranges `and 3 more`, which are ranks. `ranks` are sorted."""
    cuts = [0, *(place for place, (a, b) in enumerate(pairwise(ranks), 1) if b != a + 1), len(ranks)]
    spans = list(pairwise(cuts))
    shown = ", ".join(f"{ranks[a]}" if b == a + 1 else f"{ranks[a]}-{ranks[b - 1]}" for a, b in spans[:most])
    more = sum(b - a for a, b in spans[most:])
    return f"{shown} and {more:,} more" if more else shown


def format_span(values: Iterable[int]) -> str:
    """`3`, or `3-5` where values differ."""
    known = sorted(set(values))
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,}-{known[-1]:,}"
