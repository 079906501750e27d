"""Times of collectives, each by hand."""

import pytest

from perfkit.cost.collective import Kind, message_of_size
from perfkit.devices.catalogue import named
from perfkit.plan.collectives import Interconnect, Protocol, nccl

MB = 1e6
# 100 GB/s within a node of 8, 10 GB/s across; 5 us to start, 1 us a hop and 10 across.
RING = Protocol(start_s=5e-6, hop_s=1e-6, across_hop_s=10e-6, share=1.0)
LINKS = Interconnect(100e9, 10e9, 8, (RING,), spread=1.25, source="by hand")


def seconds(kind: Kind, nbytes: float, ranks: int, links: Interconnect = LINKS) -> float:
    takes = links.seconds(message_of_size(kind, nbytes, ranks), ranks)
    assert takes is not None
    return takes.value


@pytest.mark.parametrize(
    ("kind", "hops", "share"),
    [
        (Kind.ALL_REDUCE, 6, 6 / 4),  # reduced and gathered: twice 3 hops, twice 3/4 of the message
        (Kind.ALL_GATHER, 3, 3 / 4),
        (Kind.REDUCE_SCATTER, 3, 3 / 4),
        (Kind.ALL_TO_ALL, 3, 3 / 4),
        (Kind.BROADCAST, 1, 1),  # pipelined along the ring
        (Kind.REDUCE, 1, 1),
        (Kind.SEND, 1, 1),
    ],
)
def test_a_ring_of_four_within_a_node(kind: Kind, hops: int, share: float) -> None:
    assert seconds(kind, 100 * MB, 4) == pytest.approx(5e-6 + hops * 1e-6 + share * 1e-3)


def test_a_barrier_has_hops_and_no_bytes() -> None:
    assert seconds(Kind.BARRIER, 0, 4) == pytest.approx(5e-6 + 3e-6)


def test_one_rank_exchanges_nothing() -> None:
    assert seconds(Kind.ALL_REDUCE, 100 * MB, 1) == 0


def test_rings_cross_nodes_over_the_links_of_all_their_ranks() -> None:
    # 8 x 10 GB/s leave a node; of the 15 hops of each of two rounds one crosses.
    takes = 5e-6 + 2 * (14 * 1e-6 + 10e-6) + 2 * 15 / 16 * 100 * MB / 80e9
    assert seconds(Kind.ALL_REDUCE, 100 * MB, 16) == pytest.approx(takes)


def test_a_node_that_is_not_full_carries_what_its_own_links_do() -> None:
    # The ninth GPU is alone in its node: all rings leave it over its one link, of 16 hops 2 x 1 across.
    takes = 5e-6 + 2 * (7 * 1e-6 + 10e-6) + 2 * 8 / 9 * 100 * MB / 10e9
    assert seconds(Kind.ALL_REDUCE, 100 * MB, 9) == pytest.approx(takes)


def test_an_all_to_all_crosses_over_each_ranks_own_link() -> None:
    # Of what a rank sends to 15 others 8 parts leave its node: 8/15 of 15/16 of the message at 10 GB/s.
    takes = 5e-6 + 14 * 1e-6 + 10e-6 + 8 / 16 * 100 * MB / 10e9
    assert seconds(Kind.ALL_TO_ALL, 100 * MB, 16) == pytest.approx(takes)


def test_the_fastest_protocol_is_taken() -> None:
    quick = Protocol(start_s=1e-6, hop_s=0, across_hop_s=0, share=0.25)
    links = LINKS._replace(protocols=(RING, quick))
    assert seconds(Kind.ALL_GATHER, 1000, 2, links) == pytest.approx(1e-6 + 500 / 25e9)
    assert seconds(Kind.ALL_GATHER, 1000 * MB, 2, links) == pytest.approx(5e-6 + 1e-6 + 500 * MB / 100e9)


def test_a_tree_reduces_to_all_in_as_many_hops_as_nodes_have_digits() -> None:
    tree = Protocol(start_s=1e-6, hop_s=1e-6, across_hop_s=10e-6, share=0.5, tree=True)
    links = LINKS._replace(protocols=(RING, tree))
    # 64 ranks on 8 nodes: 2 x (7 hops within + log2 8 across); the ring would take 2 x (56 + 70) us of hops.
    message = 2 * 63 / 64 * 1000 / (80e9 * 0.5)
    assert seconds(Kind.ALL_REDUCE, 1000, 64, links) == pytest.approx(1e-6 + 2 * (7e-6 + 3 * 10e-6) + message)
    assert seconds(Kind.ALL_GATHER, 1000, 64, links) > 100e-6  # no tree gathers


def test_beyond_a_node_nothing_is_known_without_a_network() -> None:
    links = LINKS._replace(across=None)
    assert links.seconds(message_of_size(Kind.ALL_REDUCE, MB, 16), 16) is None
    assert links.seconds(message_of_size(Kind.ALL_REDUCE, MB, 8), 8) is not None


def test_the_interval_is_that_of_the_bandwidth() -> None:
    takes = LINKS.seconds(message_of_size(Kind.BROADCAST, 100 * MB, 2), 2)
    assert takes is not None
    assert takes.low == pytest.approx(6e-6 + 0.8e-3)
    assert takes.high == pytest.approx(6e-6 + 1.25e-3)


def test_nccl_counts_on_four_fifths_of_nvlink() -> None:
    links = nccl(named("h100-sxm"), 8, None)
    assert links is not None
    assert links.within == pytest.approx(360e9)
    gib = links.seconds(message_of_size(Kind.ALL_REDUCE, 2**30, 8), 8)
    assert gib is not None
    assert gib.value == pytest.approx(8.4e-6 + 14 * 3.4e-6 + 1.75 * 2**30 / 360e9)  # Simple, the fastest for so much
    assert gib.low == pytest.approx(8.4e-6 + 14 * 3.4e-6 + 1.75 * 2**30 / 450e9)


def test_without_nvlink_pci_express_is_between_ranks() -> None:
    links = nccl(named("l4"), 8, None)
    assert links is not None
    assert links.within == pytest.approx(31.508e9 * 12 / 15.754)


def test_what_the_catalogue_does_not_know_is_not_known() -> None:
    assert nccl(named("mi300a"), 8, None) is None
