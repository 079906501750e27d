"""The same collectives on several ranks, found by their numbers and by when they ended on aligned clocks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from perfkit.analysis.ranks.arrivals import Arrivals, CollectiveKind
from perfkit.analysis.ranks.clocks import Clock, align, renumber
from perfkit.analysis.ranks.skew import Matched, match
from perfkit.analysis.ranks.slots import Rows, Slots, Source
from perfkit.trace.read import NONE, Ints


class Matching(NamedTuple):
    """The clock of each rank, the place of each collective, and what is known of it."""

    clocks: list[Clock | None]
    slots: Slots
    matched: Matched


def matching(source: Source, store: Callable[[int, Rows], None], ranks: int) -> Matching:
    """Match the collectives of ranks; `store` takes those whose numbers stood for others."""
    clocks = align(source, ranks, Slots(source, ranks))
    renumber(source, store, ranks, clocks)
    slots = Slots(source, ranks)
    return Matching(clocks, slots, match(source, ranks, slots, clocks))


class Meetings(NamedTuple):
    """For each rank the number of the collective that each of its arrivals is, NONE where that is not known; and how
    far its clock is ahead (None: it shares no collective with the first rank)."""

    numbers: tuple[Ints, ...]
    offset_ns: tuple[int | None, ...]


def meetings(ranks: Sequence[Arrivals]) -> Meetings:
    """The collectives at which ranks meet."""
    kinds: dict[CollectiveKind, int] = {}
    rows = [rows_of(arrivals, kinds) for arrivals in ranks]
    found = matching(rows.__getitem__, rows.__setitem__, len(rows))
    counted = np.append(found.matched.counted, False)
    numbers = []
    for its in rows:
        slot = found.slots.find_slots(its)
        numbers.append(np.where(counted[slot], slot, NONE))
    offsets = (None if clock is None or clock.island else clock.offset_ns for clock in found.clocks)
    return Meetings(tuple(numbers), tuple(offsets))


def rows_of(arrivals: Arrivals, kinds: dict[CollectiveKind, int]) -> Rows:
    """The rows of a rank; `kinds` numbers those of all ranks, and grows."""
    numbers = np.asarray([kinds.setdefault(kind, len(kinds)) for kind in arrivals.kinds], np.int64)
    return Rows(
        numbers[arrivals.kind] if len(arrivals) else arrivals.step,
        arrivals.step,
        arrivals.number,
        arrivals.elements,
        arrivals.start_ns,
        arrivals.end_ns,
    )
