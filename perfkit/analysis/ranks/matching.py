"""Matches collectives of several ranks, by number and by end time on aligned clocks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from perfkit.analysis.ranks.arrivals import Arrivals, CollectiveKind
from perfkit.analysis.ranks.clocks import RankClock, align_clocks, assign_common_numbers
from perfkit.analysis.ranks.skew import MatchedCollectives, reduce_collectives
from perfkit.analysis.ranks.slots import CollectiveRows, Slots, Source
from perfkit.analysis.trace.collective_rows import MessageKey
from perfkit.trace.model import NONE, Ints


class Matching(NamedTuple):
    """The clock of each rank, the slot of each collective, and their states."""

    clocks: list[RankClock | None]
    slots: Slots
    matched: MatchedCollectives


def match_collectives(
    source: Source, store: Callable[[int, CollectiveRows], None], ranks: int, owners: Sequence[str] = ()
) -> Matching:
    """Match the collectives of ranks; `store` takes those whose numbers stood for others. `owners` name the clock of
    each rank, as for `align_clocks`."""
    clocks = align_clocks(source, ranks, Slots(source, ranks), owners)
    assign_common_numbers(source, store, ranks, clocks)
    slots = Slots(source, ranks)
    return Matching(clocks, slots, reduce_collectives(source, ranks, slots, clocks))


class SharedCollectives(NamedTuple):
    """For each rank the number of the collective that each of its arrivals is, NONE where that is not known; and how
    far its clock is ahead (None: it shares no collective with the first rank)."""

    numbers: tuple[Ints, ...]
    offset_ns: tuple[int | None, ...]


def find_shared_collectives(ranks: Sequence[Arrivals]) -> SharedCollectives:
    """The collectives at which ranks meet."""
    kinds: dict[CollectiveKind, int] = {}
    rows = [build_collective_rows(arrivals, kinds, {}) for arrivals in ranks]
    matching = match_collectives(rows.__getitem__, rows.__setitem__, len(rows))
    counted = np.append(matching.matched.counted, False)
    numbers = []
    for its in rows:
        slot = matching.slots.find_slots(its)
        numbers.append(np.where(counted[slot], slot, NONE))
    offsets = (None if clock is None or clock.island else clock.offset_ns for clock in matching.clocks)
    return SharedCollectives(tuple(numbers), tuple(offsets))


def build_collective_rows(
    arrivals: Arrivals, kinds: dict[CollectiveKind, int], messages: dict[MessageKey, int]
) -> CollectiveRows:
    """The rows of a rank; `kinds` and `messages` number those of all ranks, and grow."""
    sizes = np.asarray([*(messages.setdefault(key, len(messages)) for key in arrivals.messages), NONE], np.int64)
    numbers = np.asarray([kinds.setdefault(kind, len(kinds)) for kind in arrivals.kinds], np.int64)
    return CollectiveRows(
        numbers[arrivals.kind] if len(arrivals) else arrivals.step,
        arrivals.step,
        arrivals.number,
        arrivals.elements,
        arrivals.start_ns,
        arrivals.end_ns,
        np.full(len(arrivals), NONE) if arrivals.message is None else sizes[arrivals.message],
        arrivals.end_ns - arrivals.start_ns if arrivals.exposed_ns is None else arrivals.exposed_ns,
    )


def build_arrivals(rows: CollectiveRows, kinds: Sequence[CollectiveKind], messages: Sequence[MessageKey]) -> Arrivals:
    """The arrivals of which `build_collective_rows` gives these rows, with these tables."""
    return Arrivals(
        kinds=tuple(kinds),
        kind=rows.kind.astype(np.int32),
        step=rows.step,
        number=rows.number,
        elements=rows.elements,
        start_ns=rows.start_ns,
        end_ns=rows.end_ns,
        messages=tuple(messages),
        message=rows.message.astype(np.int32),
        exposed_ns=rows.exposed_ns,
    )
