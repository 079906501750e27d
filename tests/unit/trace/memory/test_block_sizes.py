"""Sizes that the allocator gives, by hand after c10/cuda/CUDACachingAllocator.cpp."""

import numpy as np
import pytest

from perfkit.trace.memory.block_sizes import AddressSpans, AllocatorSettings, extend_unsplit_blocks, round_sizes

MIB = 1 << 20


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 512), (1, 512), (512, 512), (513, 1024), (3 * MIB + 1, 3 * MIB + 512)]
)
def test_multiples_of_512(asked: int, given: int) -> None:
    assert round_sizes(np.array([asked]), AllocatorSettings()).tolist() == [given]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (1200, 1536),  # smaller than 512 x the divisions
        (300_000, 327_680),  # between 256 and 512 KiB in steps of 64 KiB
        (MIB, MIB),
        (MIB + 1, MIB + MIB // 4),
        (5 * MIB + 1, 5 * MIB + 512),  # from 4 MiB on there are no divisions
    ],
)
def test_divisions_of_powers_of_two(asked: int, given: int) -> None:
    settings = AllocatorSettings.from_snapshot({"roundup_power2_divisions": {"1": 4, "2": 4, "4": 0}})
    assert round_sizes(np.array([asked]), settings).tolist() == [given]


def test_settings_that_mean_nothing_are_none() -> None:
    assert (
        AllocatorSettings.from_snapshot({"max_split_size": -1, "roundup_power2_divisions": {}}) == AllocatorSettings()
    )
    assert AllocatorSettings.from_snapshot({"max_split_size": (1 << 64) - 1}) == AllocatorSettings()
    assert AllocatorSettings.from_snapshot({"max_split_size": 64 * MIB}).largest_split == 64 * MIB


def spaces(*rows: tuple[int, int, int]) -> AddressSpans:
    address, begin, end = np.array(rows, np.int64).reshape(-1, 3).T
    return AddressSpans(address=address, begin=begin, end=end)


def grown(size: int, at: int, taken: AddressSpans, settings: AllocatorSettings = AllocatorSettings()) -> int:  # noqa: B008 - a frozen value
    """The size of a block at address 0 that was born at event `at`."""
    return int(extend_unsplit_blocks(np.array([0]), np.array([size]), np.array([at]), taken, spaces(), settings)[0])


def test_what_is_not_worth_splitting_off_is_kept() -> None:
    assert grown(2 * MIB, 5, spaces((3 * MIB, -1, 9))) == 3 * MIB  # exactly 1 MiB remains
    assert grown(2 * MIB, 5, spaces((3 * MIB + 512, -1, 9))) == 2 * MIB
    assert grown(2 * MIB, 5, spaces((2 * MIB, -1, 9))) == 2 * MIB
    assert grown(2 * MIB, 5, spaces()) == 2 * MIB


def test_only_what_is_there_at_birth_is_behind_it() -> None:
    near, far = 2 * MIB + 512, 2 * MIB + 1024
    assert grown(2 * MIB, 5, spaces((near, 0, 5), (near, 6, 9), (far, 5, 6))) == far
    assert grown(2 * MIB, 5, spaces((near, 0, 5), (near, 4, 9))) == near


def test_blocks_too_large_to_be_split_keep_all() -> None:
    settings = AllocatorSettings(largest_split=4 * MIB)
    assert grown(4 * MIB, 0, spaces((20 * MIB, -1, 9)), settings) == 20 * MIB
    assert grown(3 * MIB, 0, spaces((20 * MIB, -1, 9)), settings) == 3 * MIB
