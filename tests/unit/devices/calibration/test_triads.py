"""Which sizes triads take, and that the DRAM triad goes round."""

import pytest
import torch

from perfkit.devices.calibration import triads
from perfkit.devices.ceilings.ceiling import CeilingLevel
from perfkit.devices.machine.machine import DataCache

MIB = 2**20


def test_working_sets_lie_between_the_caches() -> None:
    caches = {1: DataCache(48 * 1024, 2), 2: DataCache(2 * MIB, 2), 3: DataCache(480 * MIB, 1)}
    assert triads.compute_working_sets(caches, 1) == {CeilingLevel.L2: 1 * MIB, CeilingLevel.L3: 8 * MIB}
    assert triads.compute_working_sets(caches, 2) == {CeilingLevel.L2: 2 * MIB, CeilingLevel.L3: 16 * MIB}


def test_l3_grows_with_the_instances_that_threads_reach() -> None:
    caches = {2: DataCache(1 * MIB, 16), 3: DataCache(32 * MIB, 2)}
    assert triads.compute_working_sets(caches, 1)[CeilingLevel.L3] == 4 * MIB
    assert triads.compute_working_sets(caches, 16)[CeilingLevel.L3] == 32 * MIB  # half of both instances


def test_an_l3_hardly_larger_than_l2_is_left_out() -> None:
    assert CeilingLevel.L3 not in triads.compute_working_sets(
        {2: DataCache(2 * MIB, 32), 3: DataCache(60 * MIB, 1)}, 32
    )


def test_unknown_caches_are_left_out() -> None:
    assert triads.compute_working_sets({}, 4) == {}


@pytest.mark.parametrize(
    ("cached", "available", "expected"),
    [
        (32 * MIB, 64 * 1024 * MIB, 320 * MIB),  # ten times the cache
        (480 * MIB, 64 * 1024 * MIB, 1024 * MIB),  # the bound
        (480 * MIB, 1024 * MIB, 256 * MIB),  # a quarter of the free memory
        (0, 64 * 1024 * MIB, 256 * MIB),  # cache unknown
    ],
)
def test_dram_buffer(cached: int, available: int, expected: int) -> None:
    assert triads.size_dram_buffer(cached, available, 1024 * MIB) == expected


def test_dram_slices_rotate_through_the_whole_buffer() -> None:
    a, b, c = (torch.full((12,), value) for value in (0.0, 1.0, 4.0))
    call = triads._make_rotating_call(a, b, c, part=4)
    for done in (4, 8, 12):
        call()
        assert torch.equal(a, torch.tensor([3.0] * done + [0.0] * (12 - done)))  # 1 + 0.5 * 4
    a.zero_()
    call()
    assert a.count_nonzero() == 4  # and begins again
