"""Replays a snapshot's history backwards from its end: allocator sizes, and the state at the start."""

import bisect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import CUDA_SMALL_BYTES, NONE, Ints, ReservedSegments
from perfkit.trace.memory.block_sizes import AddressSpans, AllocatorSettings, extend_unsplit_blocks, round_sizes
from perfkit.trace.memory.history import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    MAPPED,
    OBTAINED,
    RETURNED,
    UNMAPPED,
    AllocatorHistory,
    HeldMemory,
)

AT_START = -1


@dataclass(frozen=True)
class HistoryReplay:
    """The allocations and frees of a history, as the allocator counts them.

    The allocator takes a block off `torch.cuda.memory_allocated()` when its free is requested, and can use it again
    once that is completed, when all streams are done with it; between the two it is active but not allocated.

    Attributes:
        events: the entries that allocate or free, in order.
        size: their bytes, negative for frees.
        freed_by: of an allocation, the position among `events` of its free, their number if there is none, NONE for a
            free.
        allocated_by: of a free, the position of its allocation, NONE if that was before the history.
        from_start: blocks of `HeldMemory` that were there before the history.
        later: blocks of `HeldMemory` that were made after the last entry.
        lost: blocks that the history allocated, did not free, and that were not held when the snapshot was taken.
        reserved: the segments.
        missing: bytes given back to the device of which the history and the segments do not tell when they came.
    """

    events: Ints
    size: Ints
    freed_by: Ints
    allocated_by: Ints
    from_start: Ints
    later: int
    lost: int
    reserved: ReservedSegments
    missing: int


def replay_history(history: AllocatorHistory, held: HeldMemory, settings: AllocatorSettings) -> HistoryReplay:
    """Pair allocations with frees and give them the sizes of blocks.

    Blocks that were held at the end have their sizes there; the others' follow from what was requested and from what
    lay behind them. Of a block that was allocated before the history and freed in it, up to 1 MiB that was not worth
    splitting off may not be seen.
    """
    allocs = history.action == ALLOC
    asked = history.action == FREE_REQUESTED
    done = history.action == FREE_COMPLETED
    frees = asked if asked.any() else done
    end_of, start_of = _pair_entries(history.address, allocs, frees)
    until, _ = _pair_entries(history.address, allocs, done if done.any() else frees)

    size = np.zeros(len(history), np.int64)
    alone = frees & (start_of == NONE)
    owners = np.flatnonzero(allocs | alone)
    size[owners] = round_sizes(history.size[owners], settings) if held.granular else history.size[owners]
    reserved, ends, missing = _rebuild_segments(history, held, allocs | frees)
    if held.granular and not settings.expandable and not held.expandable.any():
        given_back, _ = _pair_entries(history.address, frees, done)
        _extend_blocks(size, history, held, settings, (allocs, until), (alone, given_back), ends)

    known = _find_positions(held.block, history.address)
    still = allocs & (until == len(history)) & (known != NONE)
    size[still] = held.block_size[known[still]]
    waiting = alone & (known != NONE) & ~np.isin(history.address, history.address[done | allocs])
    size[waiting] = held.block_size[known[waiting]]
    size[alone] *= -1
    paired = frees & (start_of != NONE)
    size[paired] = -size[start_of[paired]]

    events = np.flatnonzero(allocs | frees)
    position = np.full(len(history) + 1, len(events), np.int64)
    position[events] = np.arange(len(events))
    freed_by = np.where(allocs[events], position[end_of[events]], NONE)
    allocated_by = np.where(paired[events], position[start_of[events]], NONE)
    living = allocs & (end_of == len(history))
    unnamed = held.allocated.copy()
    unnamed[known[living & (known != NONE)]] = False
    touched = np.isin(held.block, history.address[events])
    return HistoryReplay(
        events=events,
        size=size[events],
        freed_by=freed_by,
        allocated_by=allocated_by,
        from_start=np.flatnonzero(unnamed & ~touched),
        later=int((unnamed & touched).sum()),
        lost=int((living & (known == NONE)).sum()) if len(held.segment) else 0,
        reserved=reserved,
        missing=missing,
    )


def _pair_entries(address: Ints, begins: NDArray[np.bool_], ends: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Pair entries at an address: for each start, the entry that ends it (the number of entries if none does, or
    another starts there first), and for each end, its start (NONE)."""
    chosen = np.flatnonzero(begins | ends)
    order = chosen[np.argsort(address[chosen], kind="stable")]
    first, second = order[:-1], order[1:]
    pair = (address[first] == address[second]) & begins[first] & ends[second]
    end_of = np.full(len(address), len(address), np.int64)
    start_of = np.full(len(address), NONE, np.int64)
    end_of[first[pair]], start_of[second[pair]] = second[pair], first[pair]
    return end_of, start_of


def _find_positions(places: Ints, address: Ints) -> Ints:
    """The index in `places`, which ascend, of each address; NONE where it is not there."""
    if not len(places):
        return np.full(len(address), NONE, np.int64)
    index = np.minimum(np.searchsorted(places, address), len(places) - 1)
    return np.where(places[index] == address, index, NONE)


def _extend_blocks(
    size: Ints,
    history: AllocatorHistory,
    held: HeldMemory,
    settings: AllocatorSettings,
    made_until: tuple[NDArray[np.bool_], Ints],
    there_until: tuple[NDArray[np.bool_], Ints],
    ends: AddressSpans,
) -> None:
    """Extend blocks of the large pool in place by the rest not split off, for allocated and initial blocks, with the
    entries that free their space."""
    allocated, before = (np.flatnonzero(chosen & (size > CUDA_SMALL_BYTES)) for chosen, _ in (made_until, there_until))
    through = np.flatnonzero(
        (held.block_size > CUDA_SMALL_BYTES) & ~np.isin(held.block, history.address[made_until[0]])
    )
    at_start = [np.full(len(blocks), AT_START, np.int64) for blocks in (before, through)]
    blocks = AddressSpans(
        address=np.concatenate([history.address[allocated], history.address[before], held.block[through]]),
        begin=np.concatenate([allocated, *at_start]),
        end=np.concatenate([made_until[1][allocated], there_until[1][before], np.full(len(through), len(history))]),
    )
    asked = np.concatenate([allocated, before])
    born = np.concatenate([allocated, at_start[0]])
    size[asked] = extend_unsplit_blocks(history.address[asked], size[asked], born, blocks, ends, settings)


def _rebuild_segments(
    history: AllocatorHistory, held: HeldMemory, counted: NDArray[np.bool_]
) -> tuple[ReservedSegments, AddressSpans, int]:
    """Rebuild segments obtained and released, and initial ones; returns their ends and the unaccounted bytes."""
    gains = np.isin(history.action, (OBTAINED, MAPPED))
    losses = np.isin(history.action, (RETURNED, UNMAPPED))
    changes = np.flatnonzero(gains | losses)
    state = _AddressRanges(
        zip(held.segment.tolist(), held.segment_size.tolist(), held.expandable.tolist(), strict=True)
    )
    missing = 0
    for index in changes[::-1].tolist():
        address, bytes_ = int(history.address[index]), int(history.size[index])
        if gains[index]:
            missing += state.remove(address, address + bytes_)
        else:
            state.add(address, address + bytes_, history.action[index] == UNMAPPED)
    start = np.array([(begin, end - begin) for begin, end, _ in state.list_ranges()], np.int64).reshape(-1, 2)
    before = np.concatenate([[0], np.cumsum(counted)])
    sign = np.where(gains[changes], 1, -1)
    reserved = ReservedSegments(
        at_event=np.concatenate([np.zeros(len(start), np.int64), before[changes]]),
        address=np.concatenate([start[:, 0], history.address[changes]]),
        size=np.concatenate([start[:, 1], sign * history.size[changes]]),
        expandable=np.concatenate(
            [
                np.array([expandable for _, _, expandable in state.list_ranges()], np.bool_),
                np.isin(history.action[changes], (MAPPED, UNMAPPED)),
            ]
        ),
    )
    end_of, start_of = _pair_entries(history.address, gains, losses)
    obtained, lost = np.flatnonzero(gains), np.flatnonzero(losses & (start_of == NONE))
    until = dict(zip(history.address[lost[::-1]].tolist(), lost[::-1].tolist(), strict=True))
    ends = AddressSpans(
        address=np.concatenate([start.sum(axis=1), (history.address + history.size)[obtained]]),
        begin=np.concatenate([np.full(len(start), AT_START), obtained]),
        end=np.concatenate(
            [np.array([until.get(begin, len(history)) for begin in start[:, 0].tolist()], np.int64), end_of[obtained]]
        ),
    )
    return reserved, ends, missing


class _AddressRanges:
    """Ranges of addresses that do not overlap, each from one segment."""

    def __init__(self, ranges: "zip[tuple[int, int, bool]]") -> None:
        self._begins: list[int] = []
        self._rest: dict[int, tuple[int, bool]] = {}
        for begin, size, expandable in ranges:
            self.add(begin, begin + size, expandable)

    def add(self, begin: int, end: int, expandable: bool) -> None:
        if begin not in self._rest:
            bisect.insort(self._begins, begin)
        self._rest[begin] = (end, expandable)

    def remove(self, begin: int, end: int) -> int:
        """Remove a range; returns its missing bytes."""
        missing = end - begin
        at = max(bisect.bisect_right(self._begins, begin) - 1, 0)
        while at < len(self._begins) and self._begins[at] < end:
            low = self._begins[at]
            high, expandable = self._rest[low]
            if high <= begin:
                at += 1
                continue
            del self._begins[at], self._rest[low]
            missing -= min(high, end) - max(low, begin)
            if low < begin:
                self.add(low, begin, expandable)
                at += 1
            if high > end:
                self.add(end, high, expandable)
                break
        return missing

    def list_ranges(self) -> list[tuple[int, int, bool]]:
        return [(begin, *self._rest[begin]) for begin in self._begins]
