"""Transfers whose start and bandwidth are known."""

import pytest

from perfkit.plan.target.alpha_beta import TransferModel, fit_transfers


def test_a_transfer_takes_its_start_and_its_bytes_over_the_bandwidth() -> None:
    taken = TransferModel(start_s=1e-3, bytes_per_s=1e9, spread=2.0).seconds(4e6)
    assert (taken.value, taken.low, taken.high) == pytest.approx((5e-3, 2.5e-3, 10e-3))


def test_start_and_bandwidth_are_found() -> None:
    found = fit_transfers((size, 20e-6 + size / 3e9) for size in (4096, 65536, 1 << 20, 16 << 20))
    assert found.start_s == pytest.approx(20e-6)
    assert found.bytes_per_s == pytest.approx(3e9)
    assert found.spread == pytest.approx(1)


def test_the_spread_is_how_far_the_times_lie_from_the_fit() -> None:
    found = fit_transfers((size, size / 1e9 * off) for size, off in ((1 << 20, 0.8), (1 << 22, 1.25), (1 << 24, 0.8)))
    assert 1.1 < found.spread < 1.6
