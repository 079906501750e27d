"""The clocks of ranks' hosts against each other, from the moments at which ranks leave a collective together.

Collectives are first matched by their running numbers. Where a trace lacks some (the profiler drops records when its
buffers are full), later numbers are shifted; but the clock differences of true pairs agree and those of false pairs do
not. So the clocks are known, and collectives that ended at the same time are matched again.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.ranks.slots import CollectiveRows, Slots, Source, encode_position
from perfkit.trace.model import NONE, Ints

# The largest distance between ends of one collective on aligned clocks: they drift by some 10 us per second.
CLOCK_ERROR_NS = 1_000_000

# The largest difference in missing records between traces at which true pairs are found.
_MOST_SHIFTED = 32

_UNSET = np.iinfo(np.int64).min


class RankClock(NamedTuple):
    """The offset of a rank's clock from that of the first rank of its island, in ns; islands share no collectives."""

    offset_ns: int
    island: int


def align_clocks(source: Source, ranks: int, slots: Slots, owners: Sequence[str] = ()) -> list[RankClock | None]:
    """The clock of each rank; None for one without collectives.

    `owners` names the clock of each rank, "" where it is not known: ranks of one clock have one offset. A rank that
    shares none with the first one is aligned through others; where no chain of ranks leads there, it begins an island
    of its own.
    """
    reference = np.full(slots.size, _UNSET, np.int64)
    clocks: list[RankClock | None] = [None] * ranks
    pending, islands, begin = list(range(ranks)), 0, False
    while pending:
        remaining = []
        for rank in pending:
            rows = source(rank)
            slot = slots.find_slots(rows)
            common = reference[slot] != _UNSET
            if common.any():
                shared = _find_shared_clock(rank, clocks, owners, islands - 1)
                clock = shared or RankClock(_find_offset(rows, slots, reference), islands - 1)
            elif begin and len(slot):
                clock, begin = RankClock(0, islands), False
                islands += 1
            else:
                remaining.append(rank)
                continue
            clocks[rank] = clock
            fresh = ~common
            reference[slot[fresh]] = rows.end_ns[fresh] - clock.offset_ns
        if len(remaining) == len(pending):
            if begin:
                break
            begin = True
        pending = remaining
    return clocks


def _find_shared_clock(
    rank: int, clocks: Sequence[RankClock | None], owners: Sequence[str], island: int
) -> RankClock | None:
    """The clock of a rank of the island with the same owner; None without one."""
    if not owners or not owners[rank]:
        return None
    same = (clock for clock, owner in zip(clocks, owners, strict=True) if owner == owners[rank])
    return next((clock for clock in same if clock is not None and clock.island == island), None)


def _find_offset(rows: CollectiveRows, slots: Slots, reference: Ints) -> int:
    """The offset of the clock of these rows from the reference clock."""
    differences = _compute_differences(rows, slots, reference, 0)
    offset, agreeing = _find_agreeing_median(differences)
    if agreeing * 2 >= len(differences):
        return offset
    # Too many records are lost for running numbers: true pairs are a few numbers apart, and still they alone agree.
    shifts = range(-_MOST_SHIFTED, _MOST_SHIFTED + 1)
    return _find_agreeing_median(
        np.concatenate([_compute_differences(rows, slots, reference, shift) for shift in shifts])
    )[0]


def _compute_differences(rows: CollectiveRows, slots: Slots, reference: Ints, shift: int) -> Ints:
    slot = slots.find_slots(rows, shift)
    common = np.flatnonzero((slot != NONE) & (np.append(reference, _UNSET)[slot] != _UNSET))
    return rows.end_ns[common] - reference[slot[common]]


def _find_agreeing_median(differences: Ints) -> tuple[int, int]:
    """The median of the largest set of offsets within twice the error of each other, and the set's size.

    To the nanosecond: medians of floats are exact for small numbers only, and clocks may differ by years.
    """
    ordered = np.sort(differences)
    counts = np.searchsorted(ordered, ordered + 2 * CLOCK_ERROR_NS, side="right") - np.arange(len(ordered))
    first = int(counts.argmax())
    agreeing = ordered[first : first + int(counts[first])]
    base = int(agreeing[0])
    return base + round(float(np.median(agreeing - base))), len(agreeing)


class _KnownCollectives(NamedTuple):
    """Collectives of one kind in one island, by when they began and ended on the island's clock."""

    start_ns: Ints
    end_ns: Ints
    step: Ints
    number: Ints


def assign_common_numbers(
    source: Source, store: Callable[[int, CollectiveRows], None], ranks: int, clocks: list[RankClock | None]
) -> None:
    """Give a collective the step and number of the one that ended at the same time on earlier ranks.

    Only collectives whose own step and number are shifted change; those without a partner get a number of their own.
    """
    known: dict[tuple[int, int], _KnownCollectives] = {}
    for rank in range(ranks):
        rows, clock = source(rank), clocks[rank]
        if clock is None:
            continue
        starts, ends = rows.start_ns - clock.offset_ns, rows.end_ns - clock.offset_ns
        step, number = rows.step.copy(), rows.number.copy()
        for kind in np.unique(rows.kind).tolist():
            mine = np.flatnonzero(rows.kind == kind)
            before = known.get((clock.island, kind))
            new = _KnownCollectives(starts[mine], ends[mine], rows.step[mine], rows.number[mine])
            if before is not None:
                new = _assign_known_numbers(new, before)
                step[mine], number[mine] = new.step, new.number
            known[clock.island, kind] = new if before is None else _merge_known(before, new)
        if not (np.array_equal(step, rows.step) and np.array_equal(number, rows.number)):
            store(rank, rows._replace(step=step, number=number))


def _assign_known_numbers(rows: _KnownCollectives, before: _KnownCollectives) -> _KnownCollectives:
    codes, theirs = encode_position(rows.step, rows.number), encode_position(before.step, before.number)
    order = np.argsort(theirs)
    at = order[np.minimum(np.searchsorted(theirs[order], codes), len(order) - 1)]
    same = theirs[at] == codes
    together = (rows.start_ns <= before.end_ns[at]) & (before.start_ns[at] <= rows.end_ns)
    complete = _mask_complete_steps(rows.step, before.step, same & together)
    right = same & (complete | _is_nearest(before.end_ns, at, rows.end_ns))
    if right.all():
        return rows
    unsure = np.flatnonzero(~right)
    free = np.flatnonzero(~np.isin(theirs, codes[right]))
    nearest = _find_nearest(before.end_ns, free, rows.end_ns[unsure])
    step, number = rows.step.copy(), rows.number.copy()
    matched = nearest != NONE
    step[unsure[matched]], number[unsure[matched]] = before.step[nearest[matched]], before.number[nearest[matched]]
    alone = unsure[~matched & same[unsure]]
    number[alone] = max(int(before.number.max()), int(rows.number.max())) + 1 + np.arange(len(alone))
    return rows._replace(step=step, number=number)


def _mask_complete_steps(step: Ints, before: Ints, met: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of each row whether all of its step have met one, and there are as many: then none is lost, and numbers stand for
    the same however long ranks take to leave (Gloo's, on a busy host, some milliseconds)."""
    steps, of, mine = np.unique(step, return_inverse=True, return_counts=True)
    ordered = np.sort(before)
    theirs = np.searchsorted(ordered, steps, side="right") - np.searchsorted(ordered, steps, side="left")
    complete: NDArray[np.bool_] = ((mine == theirs) & (np.bincount(of, met, len(steps)) == mine))[of]
    return complete


def _is_nearest(known_ns: Ints, at: Ints, ends_ns: Ints) -> NDArray[np.bool_]:
    """Whether the known end at `at` is within the clock error of each end, and none is nearer: short collectives follow
    each other faster than that."""
    distance = np.abs(known_ns[at] - ends_ns)
    ordered = np.sort(known_ns)
    after = np.minimum(np.searchsorted(ordered, ends_ns), len(ordered) - 1)
    nearest = np.minimum(np.abs(ordered[after] - ends_ns), np.abs(ordered[np.maximum(after - 1, 0)] - ends_ns))
    result: NDArray[np.bool_] = (distance <= CLOCK_ERROR_NS) & (distance == nearest)
    return result


def _find_nearest(known_ns: Ints, free: Ints, ends_ns: Ints) -> Ints:
    """For each end, the nearest `free` known one within the clock error; each is used once."""
    result = np.full(len(ends_ns), NONE, np.int64)
    if not len(free):
        return result
    free = free[np.argsort(known_ns[free], kind="stable")]
    ordered = known_ns[free]
    after = np.minimum(np.searchsorted(ordered, ends_ns), len(free) - 1)
    before = np.maximum(after - 1, 0)
    place = np.where(np.abs(ordered[before] - ends_ns) < np.abs(ordered[after] - ends_ns), before, after)
    distance = np.abs(ordered[place] - ends_ns)
    closest_first = np.argsort(distance, kind="stable")
    _, winners = np.unique(place[closest_first], return_index=True)
    chosen = closest_first[winners]
    chosen = chosen[distance[chosen] <= CLOCK_ERROR_NS]
    result[chosen] = free[place[chosen]]
    return result


def _merge_known(before: _KnownCollectives, rows: _KnownCollectives) -> _KnownCollectives:
    fresh = ~np.isin(encode_position(rows.step, rows.number), encode_position(before.step, before.number))
    return _KnownCollectives(*(np.concatenate([old, new[fresh]]) for old, new in zip(before, rows, strict=True)))
