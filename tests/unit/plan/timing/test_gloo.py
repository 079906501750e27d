"""Links between ranks on a CPU, from times that are known."""

from collections.abc import Iterable

import pytest

from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.devices.ceilings.ceiling import LinkRate
from perfkit.plan.timing.collectives import Interconnect
from perfkit.plan.timing.variant_time import fit_gloo_links, load_gloo_links


def reduced(times: Iterable[tuple[int, float]], ranks: int = 2) -> list[LinkRate]:
    return [
        LinkRate(collective="all-reduce", ranks=ranks, bytes=size, seconds=took, backend="gloo") for size, took in times
    ]


def links_of(rates: list[LinkRate]) -> Interconnect:
    found = fit_gloo_links(rates)
    assert found is not None
    return found


@pytest.mark.parametrize("ranks", [2, 4])
def test_hops_and_bandwidth_are_found(ranks: int) -> None:
    factor = 2 * (ranks - 1) / ranks
    sizes = (1024, 65536, 1 << 20, 16 << 20)
    links = links_of(reduced([(size, 2 * (ranks - 1) * 30e-6 + factor * size / 2e9) for size in sizes], ranks))
    assert links.within == pytest.approx(2e9)
    assert links.spread == pytest.approx(1)
    gathered = links.seconds(make_message_of_size(CollectiveType.ALL_GATHER, 8e6, 4), 4)
    assert gathered is not None
    assert gathered.value == pytest.approx(3 * 30e-6 + 3 / 4 * 8e6 / 2e9)


def test_those_of_the_fewest_ranks_count() -> None:
    two, four = reduced([(1 << 20, 1e-3), (1 << 24, 16e-3)]), reduced([(1 << 20, 9e-3), (1 << 24, 99e-3)], 4)
    assert fit_gloo_links(four + two) == fit_gloo_links(two)


def test_the_spread_is_how_far_the_times_lie_from_the_fit() -> None:
    links = links_of(reduced([(size, size / 1e9 * off) for size, off in ((1 << 20, 0.8), (1 << 24, 1.25))]))
    assert 1.2 < links.spread < 1.6


def test_what_was_not_measured_is_not_known() -> None:
    assert load_gloo_links() is None


def test_gloo_reduce_scatters_by_reducing_to_all() -> None:
    links = links_of(reduced([(size, size / 1e9) for size in (1 << 20, 1 << 24)]))
    scattered, by_all = (
        links.seconds(make_message_of_size(kind, 1e6, 4), 4)
        for kind in (CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_REDUCE)
    )
    assert scattered == by_all
