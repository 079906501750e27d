"""Fragmentation of a caching allocator at one point: reserved memory, and the number and sizes of free pieces."""

import numpy as np

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes
from perfkit.analysis.model.memory_model import Fragmentation
from perfkit.core.allocations import NONE, Allocations, Ints, ReservedSegments


def compute_fragmentation(allocations: Allocations, lives: Lifetimes, peak_event: int) -> Fragmentation | None:
    """Reserved, allocated and free bytes after an event, which balance to the byte.

    Segments obtained one by one are held apart even where their addresses touch, since a request must fit into one of
    them; touching pieces of an expandable segment are one (`Reserved.expandable`). Blocks whose addresses are not known
    count as allocated; where there are any, or segments without addresses, the largest free piece is not known.

    None where reserved memory was not recorded in full: a live block outside all segments, two in one place, or a
    segment released without being obtained.
    """
    if not len(allocations.reserved):
        return None
    segments = _select_reserved_until(allocations.reserved, peak_event)
    alive = lives.alive_after(peak_event)
    size, address = lives.size[alive], _find_addresses(allocations, lives)[alive]
    placed = address != NONE
    located = bool((segments.address != NONE).all())
    pieces = _find_free_pieces(segments, address[placed], size[placed]) if located else np.empty(0, np.int64)
    if pieces is None:
        return None
    reserved, allocated = int(segments.size.sum()), int(size.sum())
    if reserved < allocated:
        return None
    return Fragmentation(
        reserved_bytes=reserved,
        allocated_bytes=allocated,
        free_bytes=reserved - allocated,
        largest_free_bytes=int(pieces.max(initial=0)) if located and placed.all() else None,
    )


def _select_reserved_until(reserved: ReservedSegments, event: int) -> ReservedSegments:
    """The segments reserved and released up to an event."""
    past = reserved.at_event <= max(event, 0)
    expandable = reserved.expandable if len(reserved.expandable) else np.zeros(len(reserved), np.bool_)
    return ReservedSegments(
        at_event=reserved.at_event[past],
        address=reserved.address[past],
        size=reserved.size[past],
        expandable=expandable[past],
    )


def _find_addresses(allocations: Allocations, lives: Lifetimes) -> Ints:
    """The address of each block: of its allocation, of its known state, or of its free."""
    address = np.full(len(lives), NONE, np.int64)
    allocated = lives.born != AT_START
    address[allocated] = allocations.address[lives.born[allocated]]
    known = ~allocated & (lives.known != NONE)
    address[known] = np.array([block.address for block in allocations.known], np.int64)[lives.known[known]]
    freed = ~allocated & ~known & (lives.died < len(allocations))
    address[freed] = allocations.address[lives.died[freed]]
    return address


def _find_free_pieces(reserved: ReservedSegments, address: Ints, size: Ints) -> Ints | None:
    """Sizes of the free pieces of reserved memory, in a sweep over addresses; None where blocks lie outside it.

    Each piece obtained raises the level between its ends by one and each given back lowers it, so that a part cut out
    of a mapped range needs no care; a live block lowers what is free. Segments have borders that no free piece crosses:
    as many as were obtained at an end less those given back.
    """
    sign, amount = np.sign(reserved.size), np.abs(reserved.size)
    border = np.where(reserved.expandable, 0, sign)
    ends = np.concatenate([reserved.address, reserved.address + amount])
    nothing = np.zeros(2 * len(address), np.int64)
    points, place = np.unique(np.concatenate([ends, address, address + size]), return_inverse=True)
    width = np.diff(points)
    mapped = _compute_levels(place, np.concatenate([sign, -sign, nothing]), len(points))
    once = np.ones(len(address), np.int64)
    free = _compute_levels(place, np.concatenate([sign, -sign, -once, once]), len(points))
    if np.isin(mapped, (0, 1)).all() and np.isin(free, (0, 1)).all():
        parted = np.bincount(place, np.concatenate([border, border, nothing]), len(points))[:-1] > 0
        before = np.concatenate([[0], free[:-1]])
        starts = np.flatnonzero((free == 1) & ((before == 0) | parted))
        return np.add.reduceat(width * free, starts) if len(starts) else np.empty(0, np.int64)
    return None


def _compute_levels(place: Ints, change: Ints, points: int) -> Ints:
    """The level between each point and the next, from its changes at the points."""
    return np.cumsum(np.bincount(place, change, points)).astype(np.int64)[:-1]
