"""Computes the caching allocator's block size for a request: traces give requests, counters give blocks.

From torch's c10/cuda/CUDACachingAllocator.cpp: `round_size`, `should_split` and c10/core/AllocatorConfig:
`roundup_power2_divisions`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import CUDA_SMALL_BYTES, CUDA_UNIT_BYTES, Ints, round_cuda_size

_FIRST_DIVISION, _DIVISIONS = 20, 16  # powers of two from 1 MiB on, each with its number of divisions


@dataclass(frozen=True)
class AllocatorSettings:
    """The allocator settings that affect sizes."""

    divisions: tuple[int, ...] = ()
    largest_split: int | None = None
    expandable: bool = False

    @classmethod
    def from_snapshot(cls, recorded: Mapping[str, Any]) -> "AllocatorSettings":
        """The settings from a snapshot's `allocator_settings`, {} without any."""
        by_power = recorded.get("roundup_power2_divisions") or {}
        largest = recorded.get("max_split_size")
        return cls(
            divisions=tuple(int(by_power.get(str(1 << power), 0)) for power in range(_DIVISIONS)) if by_power else (),
            largest_split=int(largest) if isinstance(largest, int) and 0 < largest < 1 << 62 else None,
            expandable=bool(recorded.get("expandable_segments", False)),
        )


def round_sizes(requested: Ints, settings: AllocatorSettings) -> Ints:
    """The least that the allocator provides for each request."""
    distinct, which = np.unique(requested, return_inverse=True)
    return np.array([_round_size(size, settings) for size in distinct.tolist()], np.int64)[which]


def _round_size(size: int, settings: AllocatorSettings) -> int:
    if size < CUDA_UNIT_BYTES:
        return CUDA_UNIT_BYTES
    power = size.bit_length() - 1
    divisions = 0
    if settings.divisions:
        divisions = settings.divisions[min(max(power - _FIRST_DIVISION, 0), _DIVISIONS - 1)]
    if divisions > 1 and size > CUDA_UNIT_BYTES * divisions:
        piece = (1 << power) >> (divisions.bit_length() - 1)
        return -(-size // piece) * piece if piece else 1 << (power + 1)
    return round_cuda_size(size)


@dataclass(frozen=True)
class AddressSpans:
    """Spans of addresses from the event `begin` until before `end`; never two at one address at once."""

    address: Ints
    begin: Ints
    end: Ints

    def find_occupied(self, address: Ints, at: Ints) -> NDArray[np.bool_]:
        """True where something begins at an address at an event."""
        if not len(self.address):
            return np.zeros(len(address), np.bool_)
        places, place_of, births, ends, key = self._ordered
        place = np.minimum(np.searchsorted(places, address), len(places) - 1)
        at = np.minimum(at, key - 3)  # after the last end there is nothing
        last = np.searchsorted(births, place * key + at + 1, side="right") - 1
        met: NDArray[np.bool_] = (places[place] == address) & (place_of[last] == place) & (last >= 0)
        return met & (ends[last] > at)

    @cached_property
    def _ordered(self) -> tuple[Ints, Ints, Ints, Ints, int]:
        """The distinct addresses; sorted by address and event: the address's index, a combined key, and the end; and
        the key width of an address."""
        order = np.lexsort((self.begin, self.address))
        places, place_of = np.unique(self.address[order], return_inverse=True)
        key = int(self.end.max()) + 3
        return places, place_of, place_of * key + self.begin[order] + 1, self.end[order], key


def extend_unsplit_blocks(
    address: Ints, size: Ints, at: Ints, blocks: AddressSpans, ends: AddressSpans, settings: AllocatorSettings
) -> Ints:
    """Extend large blocks allocated at events `at` by the rest that was not worth splitting off.

    A block of the large pool is split only if more than 1 MiB remains. So no piece of that pool is smaller, and where
    less lies between a block and what follows it (another of `blocks`, or the end of its segment, which is one of
    `ends` and at which a block of the next segment may begin), it is the block's own.
    """
    places = np.unique(np.concatenate([blocks.address, ends.address]))
    room = np.full(len(size), CUDA_SMALL_BYTES, np.int64)
    if settings.largest_split is not None:
        room[size >= settings.largest_split] = np.iinfo(np.int64).max
    grown = size.copy()
    searching, follower = np.arange(len(size)), np.searchsorted(places, address + size)
    while True:
        near = follower < len(places)
        near[near] = places[follower[near]] - (address + size)[searching[near]] <= room[searching[near]]
        searching, follower = searching[near], follower[near]
        if not len(searching):
            return grown
        met = blocks.find_occupied(places[follower], at[searching]) | ends.find_occupied(
            places[follower], at[searching]
        )
        grown[searching[met]] = places[follower[met]] - address[searching[met]]
        searching, follower = searching[~met], follower[~met] + 1
