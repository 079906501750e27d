"""The allocator's arithmetic by hand, and whatever is asked of it: blocks that tile their segments."""

import random
from itertools import pairwise

import pytest

from perfkit.plan.gpu_memory.caching_allocator import CachingAllocator, OutOfMemoryError

KIB, MIB = 2**10, 2**20


@pytest.mark.parametrize(
    ("requested", "block", "segment"),
    [
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),  # the largest of the small pool
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),  # a segment of its own
        (11 * MIB, 12 * MIB, 12 * MIB),  # in whole 2 MiB; 1 MiB is left, which is not split off
        (11 * MIB - 512, 11 * MIB - 512, 12 * MIB),  # 1 MiB and 512 B are
        (8519680, 8519680, 20 * MIB),  # cuBLAS' workspace, as a snapshot of torch 1.13 shows it
    ],
)
def test_sizes_of_blocks_and_segments(requested: int, block: int, segment: int) -> None:
    allocator = CachingAllocator()
    allocator.malloc(requested)
    assert (allocator.allocated, allocator.reserved) == (block, segment)


def test_the_best_fit_is_taken_and_neighbours_are_merged() -> None:
    allocator = CachingAllocator()
    first, second, third = (allocator.malloc(size) for size in (4 * MIB, 2 * MIB, 16 * MIB))
    assert allocator.reserved == 20 * MIB + 16 * MIB
    allocator.free(first)
    assert allocator.malloc(4 * MIB) == first  # exactly as large, where the rest of the segment has 14 MiB
    allocator.free(first)
    allocator.free(second)  # the segment of 20 MiB is one block again
    allocator.free(third)
    assert allocator.malloc(20 * MIB) == first
    assert allocator.reserved == 36 * MIB
    assert allocator.reserved_peak == 36 * MIB


def test_what_is_free_as_a_whole_is_given_back_before_a_request_fails() -> None:
    allocator = CachingAllocator(capacity=64 * MIB)
    kept, freed = allocator.malloc(30 * MIB), allocator.malloc(30 * MIB)
    allocator.free(freed)
    allocator.malloc(34 * MIB)  # 30 + 34 = 64 with the other 30 given back
    assert (allocator.reserved, allocator.reserved_peak) == (64 * MIB, 64 * MIB)
    allocator.free(kept)
    allocator.malloc(MIB)
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(30 * MIB)


def test_a_block_in_use_keeps_its_whole_segment() -> None:
    allocator = CachingAllocator(capacity=40 * MIB)
    large, _ = allocator.malloc(9 * MIB), allocator.malloc(2 * MIB)
    allocator.free(large)
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(22 * MIB)  # 31 MiB would be enough without the segment of 20


def test_a_snapshot_that_torch_made() -> None:
    """A product of a vector of 1,000 and a matrix of 1,000 x 10, plus 10, in fp32, with torch 1.13 on a GPU.

    As printed in https://discuss.pytorch.org/t/178671; the second last block is a result that was freed.
    """
    allocator = CachingAllocator()
    for requested in (40_000, 40, 4_000):
        allocator.malloc(requested)
    product = allocator.malloc(40)
    allocator.malloc(8_519_680)  # cuBLAS' workspace
    allocator.malloc(40)
    allocator.free(product)
    small, large = allocator.segments().items()
    assert [segment.size for segment, _ in (small, large)] == [2097152, 20971520]
    assert [(block.size, block.state) for block in small[1]] == [
        (40448, "active_allocated"),
        (512, "active_allocated"),
        (4096, "active_allocated"),
        (512, "inactive"),
        (512, "active_allocated"),
        (2051072, "inactive"),
    ]
    assert [(block.size, block.state) for block in large[1]] == [(8519680, "active_allocated"), (12451840, "inactive")]


@pytest.mark.parametrize("seed", range(5))
def test_blocks_tile_their_segments_whatever_is_asked(seed: int) -> None:
    choose, allocator, live = random.Random(seed), CachingAllocator(), list[int]()
    for _ in range(400):
        if live and choose.random() < 0.48:
            allocator.free(live.pop(choose.randrange(len(live))))
        else:
            live.append(allocator.malloc(choose.choice([1, 700, 300 * KIB, MIB, 3 * MIB, 9 * MIB, 31 * MIB])))
        if choose.random() < 0.02:
            allocator.empty_cache()
        segments = allocator.segments()
        assert allocator.reserved == sum(segment.size for segment in segments)
        for segment, blocks in segments.items():
            assert [block.address for block in blocks[1:]] == [block.address + block.size for block in blocks[:-1]]
            assert blocks[0].address == segment.address
            assert sum(block.size for block in blocks) == segment.size
            free = [block.state == "inactive" for block in blocks]
            assert not any(one and other for one, other in pairwise(free))
        assert allocator.allocated == sum(block.size for block in allocator.blocks.values())
