"""Segments that grow, by hand, and whatever is asked of them: blocks that tile them, and pages that are counted."""

import random
from itertools import pairwise

import pytest

from perfkit.plan.gpu_memory.caching_allocator import CachingAllocator, OutOfMemoryError
from perfkit.plan.gpu_memory.expandable_segments import UNMAPPED, ExpandableSegments

KIB, MIB = 2**10, 2**20


@pytest.mark.parametrize(
    ("requested", "block", "mapped"),
    [
        (1, 512, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (11 * MIB, 11 * MIB, 20 * MIB),  # split to the last unit, where other segments would leave 1 MiB
        (20 * MIB, 20 * MIB, 20 * MIB),
        (21 * MIB, 21 * MIB, 40 * MIB),
    ],
)
def test_sizes_of_blocks_and_what_is_mapped_for_them(requested: int, block: int, mapped: int) -> None:
    allocator = ExpandableSegments()
    allocator.malloc(requested)
    assert (allocator.allocated, allocator.reserved) == (block, mapped)


def test_a_segment_grows_by_what_its_free_end_lacks() -> None:
    allocator = ExpandableSegments()
    first = allocator.malloc(15 * MIB)
    assert allocator.malloc(30 * MIB) == first + 15 * MIB  # 5 MiB are there: two pages more
    assert allocator.reserved == 60 * MIB


def test_growing_batches_leave_no_slivers() -> None:
    """Steps of 50 tensors that are each a little larger (torch's note on expandable segments)."""
    usual, expandable = CachingAllocator(), ExpandableSegments()
    for allocator in (usual, expandable):
        for step in range(4):
            live = [allocator.malloc((30 + step) * MIB) for _ in range(50)]
            for address in live:
                allocator.free(address)
    assert expandable.reserved == 1660 * MIB  # 50 x 33 MiB, in whole pages of 20
    assert usual.reserved == 50 * (30 + 32 + 34) * MIB  # 31 and 32 MiB take segments of 32, and 33 of 34


def test_a_free_block_inside_comes_before_the_end_that_could_grow() -> None:
    allocator = ExpandableSegments()
    first, _ = allocator.malloc(12 * MIB), allocator.malloc(2 * MIB)
    allocator.free(first)  # 12 MiB inside, 6 at the end
    assert allocator.malloc(4 * MIB) == first


def test_pages_that_are_free_as_a_whole_are_given_back_before_a_request_fails() -> None:
    allocator = ExpandableSegments(capacity=80 * MIB)
    first, kept = allocator.malloc(50 * MIB), allocator.malloc(10 * MIB)
    allocator.free(first)  # two whole pages, and half of the third
    allocator.malloc(60 * MIB)  # 60 of 80 are mapped: 40 are given back, and 60 mapped at the end
    assert allocator.reserved == 80 * MIB
    allocator.free(kept)
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(21 * MIB)


@pytest.mark.parametrize("seed", range(5))
def test_blocks_tile_their_segments_whatever_is_asked(seed: int) -> None:
    choose, allocator, live = random.Random(seed), ExpandableSegments(capacity=400 * MIB), list[int]()
    for _ in range(400):
        if live and choose.random() < 0.48:
            allocator.free(live.pop(choose.randrange(len(live))))
        else:
            try:
                live.append(allocator.malloc(choose.choice([1, 700, 300 * KIB, MIB, 3 * MIB, 9 * MIB, 31 * MIB])))
            except OutOfMemoryError:
                allocator.free(live.pop())
        if choose.random() < 0.02:
            allocator.empty_cache()
        mapped = 0
        for segment, blocks in allocator.segments().items():
            assert [block.address for block in blocks[1:]] == [block.address + block.size for block in blocks[:-1]]
            assert blocks[0].address == segment.address
            states = [block.state for block in blocks]
            assert not any(one == other != "active_allocated" for one, other in pairwise(states))
            mapped += sum(block.size for block in blocks if block.state != UNMAPPED)
        assert allocator.reserved == mapped
        assert allocator.allocated == sum(block.size for block in allocator.blocks.values())
