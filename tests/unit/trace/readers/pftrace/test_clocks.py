"""Times of packets on one clock."""

import numpy as np

from perfkit.trace.readers.pftrace.clocks import Clocks
from tests.fixtures.protobuf import encode


def snapshot(*clocks: tuple[int, ...]) -> bytes:
    """Clocks as (number, time, whether it counts from packet to packet, its unit in ns)."""
    return encode([(1, [(field, value) for field, value in enumerate(clock, 1)]) for clock in clocks])


def convert(clocks: Clocks, times: list[int], number: int, sequence: int = 1) -> list[int]:
    count = len(times)
    of = np.full(count, number, np.int64)
    return clocks.convert(np.asarray(times, np.int64), of, np.full(count, sequence, np.int64)).tolist()


def test_another_clock_is_shifted() -> None:
    clocks = Clocks()
    clocks.add(snapshot((6, 1000), (1, 5000)), 1)
    assert clocks.base_ns == 1000
    assert convert(clocks, [5010, 5300], 1) == [1010, 1300]
    assert convert(clocks, [1010], 6) == [1010]


def test_a_clock_of_a_sequence_counts_in_microseconds_from_packet_to_packet() -> None:
    clocks = Clocks()
    clocks.add(snapshot((6, 1_000_000), (64, 70, 1, 1000)), 1)
    clocks.add(snapshot((6, 1_500_000), (64, 0, 1, 1000)), 2)
    assert convert(clocks, [0, 5, 10], 64) == [1_000_000, 1_005_000, 1_015_000]
    assert convert(clocks, [1], 64) == [1_016_000]
    assert convert(clocks, [2, 3], 64, sequence=2) == [1_502_000, 1_505_000]


def test_without_a_snapshot_times_stay_as_they_are() -> None:
    clocks = Clocks()
    clocks.add(b"\x0a\x7f", 1)
    assert clocks.base_ns is None
    assert convert(clocks, [7, 9], 6) == [7, 9]
