"""A caching allocator after torch's (c10/cuda/CUDACachingAllocator.cpp), for one stream and with its default settings.

Requests are rounded to 512 bytes and served best fit from the free blocks of two pools: up to 1 MiB from segments of
2 MiB, larger ones from segments of 20 MiB, and from 10 MiB on from segments of their own, in whole 2 MiB. A block of
the small pool is split to the last unit, one of the large pool where more than 1 MiB is left; free neighbors are
merged. Before a request fails, segments that are free as a whole are given back to the device.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass
from operator import attrgetter

from perfkit.core.allocations import CUDA_SMALL_BYTES, CUDA_UNIT_BYTES, round_cuda_size

SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
OWN_SEGMENT = 10 << 20  # minimum size of requests with their own segment
OWN_UNIT = 2 << 20

Pool = tuple[int, int]  # torch's id of a private pool; (0, 0) is the shared one
COMMON: Pool = (0, 0)

_order = attrgetter("size", "address")


class OutOfMemoryError(MemoryError):
    """The device has less memory than requested, even after returning all free segments."""


@dataclass(eq=False)
class AllocatorSegment:
    """Contiguous memory obtained from the device."""

    address: int
    size: int
    small: bool
    pool: Pool


@dataclass(eq=False)
class AllocatorBlock:
    """A part of a segment between its neighbors; `requested` is the requested size."""

    address: int
    size: int
    segment: AllocatorSegment
    before: "AllocatorBlock | None" = None
    after: "AllocatorBlock | None" = None
    state: str = "inactive"
    requested: int = 0


class CachingAllocator:
    """A caching allocator; blocks are identified by address.

    Attributes:
        allocated, peak: bytes of blocks in use, current and maximum.
        reserved, reserved_peak: bytes of segments, current and maximum.
        blocks: blocks in use, by address.
    """

    def __init__(self, capacity: int = 1 << 62) -> None:
        self.allocated = self.peak = self.reserved = self.reserved_peak = 0
        self.blocks: dict[int, AllocatorBlock] = {}
        self._first: dict[AllocatorSegment, AllocatorBlock] = {}
        self._free: dict[tuple[bool, Pool], list[AllocatorBlock]] = {}
        self._capacity, self._next = capacity, 0x7F0000000000

    def malloc(self, requested: int, pool: Pool = COMMON) -> int:
        """Allocate a block of at least this size, and return its address.

        Raises:
            OutOfMemoryError: the request does not fit into the capacity.
        """
        size = max(CUDA_UNIT_BYTES, round_cuda_size(requested))
        small = size <= CUDA_SMALL_BYTES
        block = self._find_best_fit(size, small, pool) or self._allocate_block(size, small, pool)
        if self._is_split(block.size - size, small):
            self._add_free(split_block(block, size))
        block.state, block.requested = "active_allocated", requested
        self.blocks[block.address] = block
        self.allocated += block.size
        self.peak = max(self.peak, self.allocated)
        return block.address

    def free(self, address: int, *, waits: bool = False) -> None:
        """Free a block; one that `waits` for a stream is released by `complete`."""
        block = self.blocks[address]
        block.state = "active_awaiting_free"
        self.allocated -= block.size
        if not waits:
            self.complete(address)

    def complete(self, address: int) -> None:
        """Release a freed block for reuse."""
        block = self.blocks.pop(address)
        block.state, block.requested = "inactive", 0
        for neighbor in (block.before, block.after):
            if neighbor is not None and neighbor.state == "inactive":
                self._remove_free(neighbor)
                block = merge_blocks(block, neighbor)
        if block.before is None:
            self._first[block.segment] = block
        self._add_free(block)

    def empty_cache(self) -> None:
        """Return unused segments to the device."""
        for segment, first in [*self._first.items()]:
            if first.state == "inactive" and first.after is None:
                self._remove_free(first)
                del self._first[segment]
                self.reserved -= segment.size

    def segments(self) -> dict[AllocatorSegment, list[AllocatorBlock]]:
        """The blocks of each segment, by address."""
        return {segment: [*list_chain(first)] for segment, first in self._first.items()}

    def reset_peak(self) -> None:
        """Reset the peak of bytes in use; the reserved peak stays."""
        self.peak = self.allocated

    def restart(self, capacity: int) -> None:
        """Return unused segments and reset all peaks; from here on segments take at most `capacity` bytes."""
        self.empty_cache()
        self.peak, self.reserved_peak, self._capacity = self.allocated, self.reserved, capacity

    def _is_split(self, remaining: int, small: bool) -> bool:
        return remaining >= CUDA_UNIT_BYTES if small else remaining > CUDA_SMALL_BYTES

    def _find_best_fit(self, size: int, small: bool, pool: Pool) -> AllocatorBlock | None:
        free = self._free.get((small, pool), [])
        at = bisect_left(free, (size, 0), key=_order)
        return free.pop(at) if at < len(free) else None

    def _allocate_block(self, size: int, small: bool, pool: Pool) -> AllocatorBlock:
        total = SMALL_SEGMENT if small else LARGE_SEGMENT if size < OWN_SEGMENT else -(-size // OWN_UNIT) * OWN_UNIT
        if self.reserved + total > self._capacity:
            self.empty_cache()
        if self.reserved + total > self._capacity:
            raise OutOfMemoryError(f"{total} more bytes do not fit: {self.reserved} of {self._capacity} are reserved")
        segment = AllocatorSegment(self._next, total, small, pool)
        self._next += total  # segments touch, as those of a device often do
        self.reserved += total
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        self._first[segment] = block = AllocatorBlock(segment.address, total, segment)
        return block

    def _get_free_blocks(self, block: AllocatorBlock) -> list[AllocatorBlock]:
        return self._free.setdefault((block.segment.small, block.segment.pool), [])

    def _remove_free(self, block: AllocatorBlock) -> None:
        """Remove from the pool of free blocks, whose addresses are unique."""
        free = self._get_free_blocks(block)
        del free[bisect_left(free, _order(block), key=_order)]

    def _add_free(self, block: AllocatorBlock) -> None:
        insort(self._get_free_blocks(block), block, key=_order)


def split_block(block: AllocatorBlock, size: int) -> AllocatorBlock:
    """Split a block to a size; the rest follows as a free block."""
    rest = AllocatorBlock(block.address + size, block.size - size, block.segment, before=block, after=block.after)
    if rest.after is not None:
        rest.after.before = rest
    block.after, block.size = rest, size
    return rest


def merge_blocks(one: AllocatorBlock, other: AllocatorBlock) -> AllocatorBlock:
    """Merge two neighbors."""
    first, last = (one, other) if one.address < other.address else (other, one)
    first.size += last.size
    first.after = last.after
    if last.after is not None:
        last.after.before = first
    return first


def list_chain(first: AllocatorBlock) -> list[AllocatorBlock]:
    """A block and all later blocks of its segment."""
    blocks = [first]
    while blocks[-1].after is not None:
        blocks.append(blocks[-1].after)
    return blocks
