"""Times of collectives, each by hand."""

import pytest

from perfkit.analysis.model.plan import Interval
from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.plan.timing.collectives import CollectiveProtocol, GroupLinks, Interconnect, SwitchReduction

MB = 1e6
# 100 GB/s within a node of 8, 10 GB/s across; 5 us to start, 1 us a hop and 10 across.
RING = CollectiveProtocol(start_s=5e-6, hop_s=1e-6, across_hop_s=10e-6, share=1.0)
LINKS = Interconnect(100e9, 10e9, 8, (RING,), spread=1.25, source="by hand")


def seconds(kind: CollectiveType, nbytes: float, ranks: int, links: Interconnect = LINKS) -> float:
    takes = links.seconds(make_message_of_size(kind, nbytes, ranks), ranks)
    assert takes is not None
    return takes.value


@pytest.mark.parametrize(
    ("kind", "hops", "share"),
    [
        (CollectiveType.ALL_REDUCE, 6, 6 / 4),  # reduced and gathered: twice 3 hops, twice 3/4 of the message
        (CollectiveType.ALL_GATHER, 3, 3 / 4),
        (CollectiveType.REDUCE_SCATTER, 3, 3 / 4),
        (CollectiveType.ALL_TO_ALL, 3, 3 / 4),
        (CollectiveType.BROADCAST, 1, 1),  # pipelined along the ring
        (CollectiveType.REDUCE, 1, 1),
        (CollectiveType.SEND, 1, 1),
    ],
)
def test_a_ring_of_four_within_a_node(kind: CollectiveType, hops: int, share: float) -> None:
    assert seconds(kind, 100 * MB, 4) == pytest.approx(5e-6 + hops * 1e-6 + share * 1e-3)


def test_a_barrier_has_hops_and_no_bytes() -> None:
    assert seconds(CollectiveType.BARRIER, 0, 4) == pytest.approx(5e-6 + 3e-6)


def test_one_rank_exchanges_nothing() -> None:
    assert seconds(CollectiveType.ALL_REDUCE, 100 * MB, 1) == 0


def test_rings_cross_nodes_over_the_links_of_all_their_ranks() -> None:
    # 8 x 10 GB/s leave a node; of the 15 hops of each of two rounds one crosses.
    takes = 5e-6 + 2 * (14 * 1e-6 + 10e-6) + 2 * 15 / 16 * 100 * MB / 80e9
    assert seconds(CollectiveType.ALL_REDUCE, 100 * MB, 16) == pytest.approx(takes)


def test_a_node_that_is_not_full_carries_what_its_own_links_do() -> None:
    # The ninth GPU is alone in its node: all rings leave it over its one link, of 16 hops 2 x 1 across.
    takes = 5e-6 + 2 * (7 * 1e-6 + 10e-6) + 2 * 8 / 9 * 100 * MB / 10e9
    assert seconds(CollectiveType.ALL_REDUCE, 100 * MB, 9) == pytest.approx(takes)


def test_an_all_to_all_crosses_over_each_ranks_own_link() -> None:
    # Of what a rank sends to 15 others 8 parts leave its node: 8/15 of 15/16 of the message at 10 GB/s.
    takes = 5e-6 + 14 * 1e-6 + 10e-6 + 8 / 16 * 100 * MB / 10e9
    assert seconds(CollectiveType.ALL_TO_ALL, 100 * MB, 16) == pytest.approx(takes)


def test_the_fastest_protocol_is_taken() -> None:
    quick = CollectiveProtocol(start_s=1e-6, hop_s=0, across_hop_s=0, share=0.25)
    links = LINKS._replace(protocols=(RING, quick))
    assert seconds(CollectiveType.ALL_GATHER, 1000, 2, links) == pytest.approx(1e-6 + 500 / 25e9)
    assert seconds(CollectiveType.ALL_GATHER, 1000 * MB, 2, links) == pytest.approx(5e-6 + 1e-6 + 500 * MB / 100e9)


def test_a_tree_reduces_to_all_in_as_many_hops_as_nodes_have_digits() -> None:
    tree = CollectiveProtocol(start_s=1e-6, hop_s=1e-6, across_hop_s=10e-6, share=0.5, tree=True)
    links = LINKS._replace(protocols=(RING, tree))
    # 64 ranks on 8 nodes: 2 x (7 hops within + log2 8 across); the ring would take 2 x (56 + 70) us of hops.
    message = 2 * 63 / 64 * 1000 / (80e9 * 0.5)
    assert seconds(CollectiveType.ALL_REDUCE, 1000, 64, links) == pytest.approx(1e-6 + 2 * (7e-6 + 3 * 10e-6) + message)
    assert seconds(CollectiveType.ALL_GATHER, 1000, 64, links) > 100e-6  # no tree gathers


def test_beyond_a_node_nothing_is_known_without_a_network() -> None:
    links = LINKS._replace(across=None)
    assert links.seconds(make_message_of_size(CollectiveType.ALL_REDUCE, MB, 16), 16) is None
    assert links.seconds(make_message_of_size(CollectiveType.ALL_REDUCE, MB, 8), 8) is not None


def test_the_interval_is_that_of_the_bandwidth() -> None:
    takes = LINKS.seconds(make_message_of_size(CollectiveType.BROADCAST, 100 * MB, 2), 2)
    assert takes is not None
    assert takes.low == pytest.approx(6e-6 + 0.8e-3)
    assert takes.high == pytest.approx(6e-6 + 1.25e-3)


NEAR = GroupLinks(2, 400e9, (RING._replace(hop_s=0.0),), 2.0)


def test_fewer_ranks_may_have_links_of_their_own() -> None:
    links = LINKS._replace(fewer=(NEAR,))
    message = make_message_of_size(CollectiveType.ALL_GATHER, 100 * MB, 2)
    assert links.seconds(message, 2) == Interval(
        value=5e-6 + 50 * MB / 400e9, low=5e-6 + 50 * MB / 800e9, high=5e-6 + 50 * MB / 200e9
    )
    assert seconds(CollectiveType.ALL_GATHER, 100 * MB, 3, links) == seconds(CollectiveType.ALL_GATHER, 100 * MB, 3)
    apart = links._replace(ranks_per_node=1)  # each in a node of its own
    assert seconds(CollectiveType.ALL_GATHER, 100 * MB, 2, apart) > 50 * MB / 10e9


def test_a_message_to_one_rank_goes_over_the_link_to_it() -> None:
    links = LINKS._replace(one_to_one=20e9)
    assert seconds(CollectiveType.SEND, 100 * MB, 4, links) == pytest.approx(6e-6 + 5e-3)
    assert seconds(CollectiveType.BROADCAST, 100 * MB, 4, links) == pytest.approx(6e-6 + 1e-3)


def test_a_switch_sums_where_it_is_faster_and_can() -> None:
    links = LINKS._replace(in_switch=SwitchReduction(25e-6, {8: 90e9}))
    by_ring = 5e-6 + 14e-6 + 1.75 * 1e9 / 100e9
    message = make_message_of_size(CollectiveType.ALL_REDUCE, 1e9, 8)
    taken = links.seconds(message, 8, summed=True)
    assert taken is not None
    assert taken.value == pytest.approx(25e-6 + 1e9 / 90e9)
    assert taken.low == taken.value  # as it was measured
    assert taken.high == pytest.approx(25e-6 + 1.25 * 1e9 / 90e9)
    assert seconds(CollectiveType.ALL_REDUCE, 1e9, 8, links) == pytest.approx(by_ring)  # by another op or dtype
    small = links.seconds(make_message_of_size(CollectiveType.ALL_REDUCE, 8, 8), 8, summed=True)
    assert small is not None
    assert small.value < 25e-6
    gather = make_message_of_size(CollectiveType.ALL_GATHER, 1e9, 8)
    assert links.seconds(gather, 8, summed=True) == links.seconds(gather, 8)
    four = make_message_of_size(CollectiveType.ALL_REDUCE, 1e9, 4)
    assert links.seconds(four, 4, summed=True) == links.seconds(four, 4)
