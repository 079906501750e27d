"""Links between ranks on a CPU, from times that are known."""

import pytest

from perfkit.cost.collective import Kind, message_of_size
from perfkit.plan import gloo
from perfkit.plan.gloo import Exchanged, fitted


def test_hops_and_bandwidth_are_found() -> None:
    exchanged = [Exchanged(bytes=size, seconds=2 * 30e-6 + size / 2e9) for size in (1024, 65536, 1 << 20, 16 << 20)]
    links = fitted(exchanged)
    assert links.within == pytest.approx(2e9)
    assert links.spread == pytest.approx(1)
    gathered = links.seconds(message_of_size(Kind.ALL_GATHER, 8e6, 4), 4)
    assert gathered is not None
    assert gathered.value == pytest.approx(3 * 30e-6 + 3 / 4 * 8e6 / 2e9)


def test_the_spread_is_how_far_the_times_lie_from_the_fit() -> None:
    links = fitted([Exchanged(bytes=size, seconds=size / 1e9 * off) for size, off in ((1 << 20, 0.8), (1 << 24, 1.25))])
    assert 1.2 < links.spread < 1.6


def test_what_was_measured_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanged = (Exchanged(bytes=1 << 20, seconds=1e-3), Exchanged(bytes=1 << 24, seconds=16e-3))
    monkeypatch.setattr(gloo, "_measured", lambda: gloo.Measured(exchanged=exchanged))
    assert gloo.gloo() is None
    assert gloo.measure_gloo() == gloo.gloo() == fitted(exchanged)


def test_gloo_reduce_scatters_by_reducing_to_all() -> None:
    links = fitted([Exchanged(bytes=size, seconds=size / 1e9) for size in (1 << 20, 1 << 24)])
    scattered, reduced = (
        links.seconds(message_of_size(kind, 1e6, 4), 4) for kind in (Kind.REDUCE_SCATTER, Kind.ALL_REDUCE)
    )
    assert scattered == reduced
