"""What links of GPUs carry, against what nccl-tests and rccl-tests were published to reach."""

import pytest

from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.devices.catalog.catalog import load_catalog, resolve_entry
from perfkit.plan.timing.collectives import Interconnect
from perfkit.plan.timing.gpu_links import has_switch, make_nccl_links

GIB = 2**30


def links_of(gpu: str, ranks_per_node: int = 8) -> Interconnect:
    links = make_nccl_links(resolve_entry(gpu), ranks_per_node, None)
    assert links is not None
    return links


def bus_gb_s(
    gpu: str, ranks: int, kind: CollectiveType = CollectiveType.ALL_REDUCE, nbytes: int = 4 * GIB
) -> tuple[float, float, float]:
    """Bus bandwidth of nccl-tests of a large message: at the least, as expected, at the most."""
    message = make_message_of_size(kind, nbytes, ranks)
    taken = links_of(gpu).seconds(message, ranks, summed=True)
    assert taken is not None
    low, value, high = (
        message.compute_bus_bandwidth(seconds) / 1e9 for seconds in (taken.high, taken.value, taken.low)
    )
    return low, value, high


def test_nccl_counts_on_four_fifths_of_nvlink() -> None:
    links = links_of("h100-sxm")
    assert links.within == pytest.approx(360e9)
    gib = links.seconds(make_message_of_size(CollectiveType.ALL_REDUCE, GIB, 8), 8)
    assert gib is not None
    assert gib.value == pytest.approx(8.4e-6 + 14 * 3.4e-6 + 1.75 * GIB / 360e9)  # Simple, the fastest for so much
    assert gib.low == pytest.approx(8.4e-6 + 14 * 3.4e-6 + 1.75 * GIB / 450e9)


def test_without_nvlink_pci_express_is_between_ranks() -> None:
    assert links_of("l4").within == pytest.approx(31.508e9 * 12 / 15.754)


def test_what_the_catalogue_does_not_know_is_not_known() -> None:
    assert make_nccl_links(resolve_entry("mi300a"), 8, None) is None


@pytest.mark.parametrize(
    ("gpu", "ranks", "published"),
    [
        ("h100-sxm", 8, 480),  # nccl#1455, with the sum in NVSwitch
        ("h100-sxm", 6, 440),
        ("h100-sxm", 4, 367),  # a ring
        ("h800-sxm", 8, 215),  # nccl#1374
        ("a100-80g", 8, 235),  # NCCL's own cap (`tuning.cc`)
        ("mi300x", 8, 320),  # rocm.blogs.amd.com
        ("rtx-5090", 4, 35),  # nccl#1639
        ("rtx-5090", 8, 28),
        ("a100-pcie-80gb", 2, 208),  # nccl-tests#178
        ("a100-pcie-80gb", 4, 20),
    ],
)
def test_published_all_reduces_are_within_the_bounds(gpu: str, ranks: int, published: float) -> None:
    low, value, high = bus_gb_s(gpu, ranks)
    assert low <= published <= 1.02 * high  # of a large message, which latency slows down a little
    assert value == pytest.approx(published, rel=0.2)


def test_a_gather_is_no_faster_in_the_switch() -> None:
    assert bus_gb_s("h100-sxm", 8, CollectiveType.ALL_GATHER)[1] == pytest.approx(360, rel=0.01)


@pytest.mark.parametrize(
    ("gpu", "switched"),
    [
        ("h100-sxm", True),
        ("h200-sxm", True),
        ("h20", True),
        ("b200", True),
        ("gb200", True),
        ("h100-pcie", False),
        ("h100-nvl", False),
        ("h200-nvl", False),
        ("gh200-96gb", False),
        ("a100-sxm-80gb", False),
        ("mi300x", False),
    ],
)
def test_boards_of_hopper_and_blackwell_sum_in_the_switch(gpu: str, switched: bool) -> None:
    assert has_switch(resolve_entry(gpu)) == switched
    assert (links_of(gpu).in_switch is not None) == switched


def test_blackwell_is_scaled_by_what_nccl_counts_on() -> None:
    hopper, blackwell = links_of("h100-sxm").in_switch, links_of("b200").in_switch
    assert hopper is not None
    assert blackwell is not None
    assert blackwell.bytes_per_s[8] / hopper.bytes_per_s[8] == pytest.approx(2 * 0.74 / 0.85)


WITHOUT = {
    entry.id
    for entry in load_catalog().devices
    if (links := make_nccl_links(entry, 8, None)) and "no P2P" in links.source
}


def test_geforce_cards_have_no_p2p_and_others_do() -> None:
    assert {"rtx-4090", "rtx-5090", "rtx-3080", "rtx-2080-ti", "titan-rtx", "rtx-4090-d"} <= WITHOUT
    p2p = {"l40s", "a10", "a40", "rtx-a6000", "rtx-6000-ada", "rtx-4000-ada", "rtx-5000-ada", "t4", "mi210"}
    p2p |= {"rtx-pro-6000-blackwell", "quadro-rtx-6000", "rx-7900-xtx", "h100-sxm", "v100-pcie"}
    assert not p2p & WITHOUT
    assert p2p <= {entry.id for entry in load_catalog().devices}


def test_without_p2p_half_of_the_link_is_left() -> None:
    assert links_of("rtx-4090").within == pytest.approx(31.508e9 / 2)
    assert bus_gb_s("rtx-4090", 8)[0] == pytest.approx(10, rel=0.05)  # what NCCL counts on between sockets


def test_a_3090_has_nvlink_to_its_neighbour_alone() -> None:
    assert bus_gb_s("rtx-3090", 2)[1] == pytest.approx(45, rel=0.02)
    assert bus_gb_s("rtx-3090", 4)[1] == pytest.approx(31.508 / 2, rel=0.02)


@pytest.mark.parametrize(("ranks", "links"), [(2, 1), (4, 3), (8, 7)])
def test_a_group_on_infinity_fabric_has_the_links_between_its_ranks(ranks: int, links: int) -> None:
    assert bus_gb_s("mi300x", ranks)[1] == pytest.approx(48 * links, rel=0.02)
    assert bus_gb_s("mi300x", ranks, CollectiveType.SEND)[1] == pytest.approx(48, rel=0.02)


def test_rccl_counts_on_less_of_infinity_fabric_than_nccl_of_nvlink() -> None:
    assert links_of("mi250x").within == pytest.approx(200e9 * 36 / 50)
    assert links_of("mi300x", 4).within == pytest.approx(3 * 48e9)
    assert bus_gb_s("mi100", 4)[1] == pytest.approx(3 * 24, rel=0.02)  # a hive of four
    assert bus_gb_s("mi100", 8)[1] == pytest.approx(31.508 * 12 / 15.754, rel=0.02)
