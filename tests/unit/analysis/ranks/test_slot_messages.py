"""Messages that differ between the ranks of a collective."""

from pathlib import Path

import pytest

from perfkit.analysis.model.fleet import CollectiveTiming
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from tests.fixtures.rank_files import Call, write_rank

BF16 = 2
SENT = (3_000_000, 7_000_000, 5_000_000)


def read(folder: Path, order: tuple[int, ...], *calls: tuple[int, ...]) -> tuple[CollectiveTiming, ...]:
    """The timings of all-to-alls of three ranks that send these elements each, with ranks read in an order."""
    paths = [
        write_rank(
            folder / f"trace{place}.json",
            rank,
            3,
            [
                [Call("all_to_allv", sent[rank], 2000 + 1000 * at, 2500 + 1000 * at) for at, sent in enumerate(calls)]
                for _ in range(2)
            ],
        )
        for place, rank in enumerate(order)
    ]
    fleet = analyze_traces(paths, jobs=1).fleet
    assert fleet is not None
    return fleet.timings


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
def test_an_uneven_all_to_all_has_the_largest_message_whatever_the_order_of_ranks(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    (row,) = read(tmp_path, order, SENT)
    assert (row.message_bytes, row.summed_bytes) == (7_000_000 * BF16, 15_000_000 * BF16)
    assert row.bus_bandwidth == pytest.approx(7_000_000 * BF16 * (2 / 3) / 500e-6)


def test_calls_of_one_largest_message_have_the_mean_of_their_sums(tmp_path: Path) -> None:
    even, uneven = read(tmp_path, (0, 1, 2), SENT, (7_000_000, 1_000_000, 1_000_000), (7_000_000,) * 3)[::-1]
    assert (even.calls, even.message_bytes, even.summed_bytes) == (1, 7_000_000 * BF16, None)
    assert (uneven.calls, uneven.message_bytes, uneven.summed_bytes) == (2, 7_000_000 * BF16, 12_000_000 * BF16)
