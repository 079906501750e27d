"""Torch's caching allocator with `expandable_segments:True` (c10/cuda/CUDACachingAllocator.cpp, Expandable Segments).

Each pool has one segment, with addresses for all of the device's memory, of which pages are mapped as they are needed:
of 2 MiB in the small pool, of 20 MiB in the large one. A request that no free block can serve takes the lowest place
where it has room, a free block before it included, and maps the pages that it lacks. What is left of a block is split
off to the last unit in both pools. Before a request fails, pages that are free as a whole are given back.
"""

from collections.abc import Iterator
from itertools import accumulate, takewhile

from perfkit.plan.gpu_memory.caching_allocator import (
    LARGE_SEGMENT,
    SMALL_SEGMENT,
    AllocatorBlock,
    AllocatorSegment,
    CachingAllocator,
    OutOfMemoryError,
    Pool,
    list_chain,
    merge_blocks,
    split_block,
)

FREE, UNMAPPED = "inactive", "unmapped"
_ADDRESSES = 1 << 50  # above any request


class ExpandableSegments(CachingAllocator):
    """A caching allocator with one growing and shrinking segment per pool."""

    def __init__(self, capacity: int = 1 << 62) -> None:
        super().__init__(capacity)
        self._of_pool: dict[tuple[bool, Pool], AllocatorSegment] = {}

    def empty_cache(self) -> None:
        """Return unused pages to the device."""
        for segment, blocks in self.segments().items():
            page = _get_page_size(segment)
            for block in blocks:
                first = -(-(block.address - segment.address) // page) * page + segment.address
                end = (block.address + block.size - segment.address) // page * page + segment.address
                if block.state == FREE and first < end:
                    self._unmap_pages(block, first, end - first)

    def _is_split(self, remaining: int, small: bool) -> bool:
        return super()._is_split(remaining, small=True)

    def _find_best_fit(self, size: int, small: bool, pool: Pool) -> AllocatorBlock | None:
        """The smallest fitting free block; growable blocks come last."""
        fitting = [block for block in self._free.get((small, pool), []) if block.size >= size]
        block = min(fitting, key=_get_grown_size, default=None)
        if block is not None:
            self._remove_free(block)
        return block

    def _allocate_block(self, size: int, small: bool, pool: Pool) -> AllocatorBlock:
        first = self._first[self._get_segment(small, pool)]
        start = _find_lowest(first, size)
        if self.reserved + _count_lacking_bytes(start, size) > self._capacity:
            self.empty_cache()
            start = _find_lowest(first, size)
        lacking = _count_lacking_bytes(start, size)
        if self.reserved + lacking > self._capacity:
            raise OutOfMemoryError(f"{lacking} more bytes do not fit: {self.reserved} of {self._capacity} are reserved")
        return self._grow_block(start, size)

    def _get_segment(self, small: bool, pool: Pool) -> AllocatorSegment:
        if (small, pool) not in self._of_pool:
            segment = self._of_pool[small, pool] = AllocatorSegment(self._next, _ADDRESSES, small, pool)
            self._first[segment] = AllocatorBlock(segment.address, _ADDRESSES, segment, state=UNMAPPED)
            self._next += _ADDRESSES
        return self._of_pool[small, pool]

    def _grow_block(self, block: AllocatorBlock, size: int) -> AllocatorBlock:
        """Extend a block to this size, mapping what follows it."""
        self._map_block(block, size)
        while block.size < size or (block.after is not None and block.after.state == FREE):
            assert block.after is not None
            self._map_block(block.after, size - block.size)
            block = merge_blocks(block, block.after)
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        return block

    def _map_block(self, block: AllocatorBlock, size: int) -> None:
        """Take a free block, or map the pages of an unmapped one."""
        if block.state == FREE:
            self._remove_free(block)
        else:
            pages = _count_page_bytes(block, size)
            if pages < block.size:
                split_block(block, pages).state = UNMAPPED
            block.state = FREE
            self.reserved += pages

    def _unmap_pages(self, block: AllocatorBlock, address: int, size: int) -> None:
        """Return pages of a free block."""
        self._remove_free(block)
        if address > block.address:
            head, block = block, split_block(block, address - block.address)
            self._add_free(head)
        if size < block.size:
            self._add_free(split_block(block, size))
        block.state = UNMAPPED
        self.reserved -= size
        for neighbor in (block.before, block.after):
            if neighbor is not None and neighbor.state == UNMAPPED:
                block = merge_blocks(block, neighbor)


def _get_page_size(segment: AllocatorSegment) -> int:
    return SMALL_SEGMENT if segment.small else LARGE_SEGMENT


def _count_page_bytes(block: AllocatorBlock, size: int) -> int:
    """Bytes of an unmapped block's pages for a size, at most all."""
    page = _get_page_size(block.segment)
    return min(-(-size // page) * page, block.size)


def _get_grown_size(block: AllocatorBlock) -> int:
    return block.size + (block.after.size if block.after is not None and block.after.state == UNMAPPED else 0)


def _find_lowest(first: AllocatorBlock, size: int) -> AllocatorBlock:
    """The lowest address with room for a request, including a free block before unmapped pages."""
    return next(block for block in _find_starts(first) if _has_room(block, size))


def _find_starts(first: AllocatorBlock) -> Iterator[AllocatorBlock]:
    for block in list_chain(first):
        if block.state == UNMAPPED:
            yield block.before if block.before is not None and block.before.state == FREE else block


def _has_room(start: AllocatorBlock, size: int) -> bool:
    unused = takewhile(lambda block: block.state in (FREE, UNMAPPED), list_chain(start))
    return any(total >= size for total in accumulate(block.size for block in unused))


def _count_lacking_bytes(start: AllocatorBlock, size: int) -> int:
    """Bytes of the pages to map for a request that begins there."""
    lacking = 0
    for block in list_chain(start):
        if size <= 0:
            break
        free_bytes = block.size if block.state == FREE else _count_page_bytes(block, size)
        lacking += 0 if block.state == FREE else free_bytes
        size -= free_bytes
    return lacking
