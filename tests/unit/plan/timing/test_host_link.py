"""Copies between a GPU and its host."""

import pytest
from msgspec.structs import replace

from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.plan.timing.host_link import find_host_link


def test_copies_reach_three_quarters_of_the_links_rate() -> None:
    """PCI Express 5.0 x16 has 63 GB/s in one direction, of which NCCL counts on 12 of 15.754."""
    link = find_host_link(resolve_entry("h100-sxm"))
    assert link is not None
    seconds = link.seconds(63.015e9)
    assert seconds.low == pytest.approx(1.0)
    assert seconds.value == pytest.approx(15.754 / 12)
    assert seconds.high == pytest.approx((15.754 / 12) ** 2)


def test_a_link_that_is_not_in_the_catalogue_is_not_known() -> None:
    assert find_host_link(replace(resolve_entry("h100-sxm"), host_link_gb_s=None)) is None
