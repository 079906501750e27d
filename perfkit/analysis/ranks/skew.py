"""Waits of ranks for each other at collectives, from the arrivals of each; read one rank at a time, never all at once.

The last rank to arrive at a collective does not wait, so its collective is the shortest; all ranks leave it together.
Hence a rank's wait is its duration minus the shortest one, independent of clocks. Clocks only verify a match: after
correcting their offsets, every rank must be in the collective when the last one arrives. Where all ranks have one
clock, it shows when each arrived: Gloo's ranks leave milliseconds apart on a busy host.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.ranks.clocks import CLOCK_ERROR_NS, RankClock
from perfkit.analysis.ranks.slots import CollectiveRows, Slots, Source
from perfkit.trace.model import NONE, Ints

_UNSET = np.iinfo(np.int64).min
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class MatchedCollectives:
    """Every collective that occurs on any rank, one slot each, grouped by kind.

    Attributes:
        kind, step: of each slot.
        ranks: on how many ranks it was found.
        counted: whether it is used: on two ranks or more, with the same size, and all in it at the same time.
        resized, apart: where it is not, for the sizes or the times do not agree.
        latest: index of the rank that came last.
        wait_ns: mean time that the ranks waited for the last one; `worst_ns` the longest.
        longest_ns: its duration on the rank that came first.
        transfer_ns: its duration on the rank that came last, which waits for nobody.
        margin_ns: how long all others waited for the last one alone.
        start_skew_ns, end_skew_ns: on corrected clocks, from the first rank to begin (end) until the last.
    """

    kind: Ints
    step: Ints
    ranks: Ints
    counted: NDArray[np.bool_]
    resized: NDArray[np.bool_]
    apart: NDArray[np.bool_]
    latest: Ints
    wait_ns: NDArray[np.float64]
    worst_ns: Ints
    longest_ns: Ints
    transfer_ns: Ints
    margin_ns: Ints
    start_skew_ns: Ints
    end_skew_ns: Ints

    def __len__(self) -> int:
        return len(self.kind)


def reduce_collectives(source: Source, ranks: int, slots: Slots, clocks: list[RankClock | None]) -> MatchedCollectives:
    """Reduce the ranks' collectives to one row each."""
    size = slots.size
    present = np.zeros(size, np.int64)
    fewest, most = np.full(size, _NEVER), np.full(size, _UNSET)
    last_start, first_end = np.full(size, _UNSET), np.full(size, _NEVER)
    shortest, longest, total = np.full(size, _NEVER), np.full(size, _UNSET), np.zeros(size, np.float64)
    second = np.full(size, _NEVER)
    first_start, last_end = np.full(size, _NEVER), np.full(size, _UNSET)
    latest = np.full(size, NONE, np.int64)
    for rank in range(ranks):
        rows = source(rank)
        slot = slots.find_slots(rows)
        clock = clocks[rank]
        offset = 0 if clock is None else clock.offset_ns
        duration = rows.end_ns - rows.start_ns
        present[slot] += 1
        recorded = rows.elements != NONE
        fewest[slot[recorded]] = np.minimum(fewest[slot[recorded]], rows.elements[recorded])
        most[slot[recorded]] = np.maximum(most[slot[recorded]], rows.elements[recorded])
        last_start[slot] = np.maximum(last_start[slot], rows.start_ns - offset)
        first_end[slot] = np.minimum(first_end[slot], rows.end_ns - offset)
        first_start[slot] = np.minimum(first_start[slot], rows.start_ns - offset)
        last_end[slot] = np.maximum(last_end[slot], rows.end_ns - offset)
        latest[slot] = np.where(duration < shortest[slot], rank, latest[slot])
        second[slot] = np.minimum(second[slot], np.maximum(duration, shortest[slot]))
        shortest[slot] = np.minimum(shortest[slot], duration)
        longest[slot] = np.maximum(longest[slot], duration)
        total[slot] += duration
    several = present > 1
    resized = several & (fewest != most) & (most != _UNSET)
    apart = several & ~resized & (last_start > first_end + CLOCK_ERROR_NS)
    kind, step = slots.get_columns()
    return MatchedCollectives(
        kind=kind,
        step=step,
        ranks=present,
        counted=several & ~resized & ~apart,
        resized=resized,
        apart=apart,
        latest=latest,
        wait_ns=total / np.maximum(present, 1) - shortest,
        worst_ns=longest - shortest,
        longest_ns=longest,
        transfer_ns=shortest,
        margin_ns=np.where(several, second, shortest) - shortest,
        start_skew_ns=last_start - first_start,
        end_skew_ns=last_end - first_end,
    )


def make_common_ends(source: Source, ranks: int, slots: Slots) -> Source:
    """The collectives of ranks with one clock, each as long as until the last rank left it: durations then differ by
    when ranks arrived alone."""
    last_end = np.full(slots.size, _UNSET)
    for rank in range(ranks):
        rows = source(rank)
        np.maximum.at(last_end, slots.find_slots(rows), rows.end_ns)

    def read_rows(rank: int) -> CollectiveRows:
        rows = source(rank)
        return rows._replace(end_ns=last_end[slots.find_slots(rows)])

    return read_rows


def compute_lateness(rows: CollectiveRows, slots: Slots, matched: MatchedCollectives) -> int | None:
    """The total delay of this rank after the first rank at each collective, in ns; None without any counted."""
    slot = slots.find_slots(rows)
    used = matched.counted[slot]
    if not used.any():
        return None
    return int((matched.longest_ns[slot] - (rows.end_ns - rows.start_ns))[used].sum())


def sum_margins(matched: MatchedCollectives, ranks: int) -> NDArray[np.float64]:
    """The time that all others waited for each rank alone, in ns."""
    used = np.flatnonzero(matched.counted)
    margins: NDArray[np.float64] = matched.margin_ns[used].astype(np.float64)
    return np.bincount(matched.latest[used], margins, ranks).astype(np.float64)


def sum_saved_waits(source: Source, slots: Slots, matched: MatchedCollectives, others: Iterable[int]) -> int:
    """The time in ns by which collectives end sooner if all ranks come no later than the last of these `others`."""
    shortest = np.full(slots.size, _NEVER)
    for rank in others:
        rows = source(rank)
        slot = slots.find_slots(rows)
        shortest[slot] = np.minimum(shortest[slot], rows.end_ns - rows.start_ns)
    used = matched.counted & (shortest != _NEVER)
    return int((shortest - matched.transfer_ns)[used].sum())
