"""What is kept of several calibrations of the links, and what is told of sizes in between, by hand."""

import pytest
from msgspec.structs import replace

from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.cost.link_ceiling import compute_bus_bandwidth, find_link_ceiling
from perfkit.devices.ceilings.ceiling import Confidence, LinkRate
from perfkit.devices.links.rates import interpolate_rate, merge_rates, select_link_rates
from perfkit.devices.links.time_collectives import COLLECTIVES

RATE = LinkRate(
    collective="all-reduce", ranks=4, bytes=1 << 20, seconds=1e-3, backend="gloo", confidence=Confidence.HIGH
)
LARGER = replace(RATE, bytes=4 << 20, seconds=3e-3)


def test_the_fastest_of_all_days_holds() -> None:
    slower = replace(RATE, seconds=2e-3, measured_at="later")
    assert merge_rates([slower, LARGER, RATE]) == (RATE, LARGER)


@pytest.mark.parametrize(("seconds", "disturbed"), [(1.04e-3, ""), (1.2e-3, "busy")])
def test_what_was_disturbed_stays_so_unless_a_good_one_comes_close(seconds: float, disturbed: str) -> None:
    (kept,) = merge_rates([replace(RATE, disturbance="busy"), replace(RATE, seconds=seconds)])
    assert (kept.seconds, kept.disturbance) == (1e-3, disturbed)


@pytest.mark.parametrize(
    ("nbytes", "seconds"),
    [
        (1 << 20, 1e-3),
        (2 << 20, 1e-3 + 2e-3 / 3),  # in proportion
        (1 << 10, 1e-3),  # latency is all there is of a small one
        (8 << 20, 6e-3),  # at the rate of the largest
    ],
)
def test_the_time_of_other_sizes(nbytes: int, seconds: float) -> None:
    found = interpolate_rate([LARGER, RATE], "all-reduce", 4, nbytes)
    assert found is not None
    assert found.seconds == pytest.approx(seconds)
    assert found.bytes == nbytes


def test_what_was_not_measured_is_not_known() -> None:
    assert interpolate_rate([RATE], "all-reduce", 2, 1 << 20) is None
    assert interpolate_rate([RATE], "all-gather", 4, 1 << 20) is None


def test_doubt_of_either_end_is_doubt_in_between() -> None:
    doubtful = replace(LARGER, confidence=Confidence.LOW)
    found = interpolate_rate([RATE, doubtful], "all-reduce", 4, (1 << 20) + 1)
    assert found is not None
    assert found.confidence == Confidence.LOW


def test_bus_bandwidth_is_the_ceiling_of_a_message() -> None:
    assert compute_bus_bandwidth(RATE) == pytest.approx(2 * 3 / 4 * (1 << 20) / 1e-3)
    ceiling = find_link_ceiling([RATE], make_message_of_size(CollectiveType.ALL_REDUCE, 1 << 20, 4), 4)
    assert ceiling is not None
    assert ceiling.value == compute_bus_bandwidth(RATE)
    assert all(part in ceiling.source for part in ("all-reduce", "1.00 MiB", "4 ranks", "gloo"))


def test_receiving_takes_what_sending_takes() -> None:
    sent = replace(RATE, collective="send", ranks=2)
    ceiling = find_link_ceiling([sent], make_message_of_size(CollectiveType.RECEIVE, 1 << 20, 2), 2)
    assert ceiling is not None
    assert ceiling.value == pytest.approx((1 << 20) / 1e-3)


def test_collectives_bear_the_names_of_their_kinds() -> None:
    assert all(CollectiveType(name) == name for name in COLLECTIVES)


def test_a_rate_holds_for_messages_over_its_own_kind_of_link() -> None:
    bridge, far = replace(RATE, gpus=(0, 1, 2, 3), link="NV2"), replace(RATE, link="SYS", gpus=(0, 1, 2, 4))
    assert merge_rates([replace(bridge, seconds=2e-3), bridge, far]) == (bridge, far)
    assert interpolate_rate([bridge, far], "all-reduce", 4, 1 << 20) is None
    held = select_link_rates([bridge, far], 4, "NV2")
    assert interpolate_rate(held, "all-reduce", 4, 1 << 20) == bridge
    ceiling = find_link_ceiling(held, make_message_of_size(CollectiveType.ALL_REDUCE, 1 << 20, 4), 4)
    assert ceiling is not None
    assert ceiling.source.endswith("on GPUs 0, 1, 2, 3 (NV2)")
    assert select_link_rates([bridge, far], 2, "NV2") == (bridge, far)
