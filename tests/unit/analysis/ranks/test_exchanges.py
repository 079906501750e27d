"""Bytes of all-to-alls between each two ranks."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.model.fleet import ExchangeMap
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.ranks.exchanges import MOST_PEERS, Exchange, build_exchange, build_exchange_map
from perfkit_reports.charts.exchange_map import build_chart
from tests.fixtures.rank_files import Call, write_rank

ROWS = [[2, 6, 0], [1, 1, 2], [4, 4, 4]]  # from each rank to each, of 1000 elements
BF16 = 2


def write(folder: Path, ranks: list[int]) -> list[str]:
    paths = []
    for rank in ranks:
        received = [row[rank] for row in ROWS]
        fields = {
            "Out msg nelems": 1000 * sum(received),
            "In split size": str(ROWS[rank]),
            "Out split size": str(received),
        }
        calls = [Call("all_to_allv", 1000 * sum(ROWS[rank]), start, start + 100, fields) for start in (2000, 3000)]
        paths.append(write_rank(folder / f"rank{rank}.json", rank, 3, [calls] * 2))
    return paths


def read(paths: list[str]) -> ExchangeMap:
    fleet = analyze_traces(paths, jobs=1).fleet
    assert fleet is not None
    assert fleet.exchange is not None
    return fleet.exchange


def test_splits_count_rows_of_the_message(tmp_path: Path) -> None:
    found = read(write(tmp_path, [0, 1, 2]))
    assert found.ranks == (0, 1, 2)
    assert [list(row) for row in found.bytes] == [
        pytest.approx([2 * rows * 1000 * BF16 for rows in row]) for row in ROWS
    ]


def test_what_a_rank_without_a_trace_sends_is_known_from_the_receivers(tmp_path: Path) -> None:
    found = read(write(tmp_path, [0, 2]))
    assert list(found.bytes[1]) == [pytest.approx(2 * 1000 * BF16), None, pytest.approx(2 * 2 * 1000 * BF16)]


def test_without_splits_all_ranks_get_equal_parts(tmp_path: Path) -> None:
    calls = [[Call("all_to_all", 3000, 2000, 2100, {"In split size": "[]", "Out split size": "[]"})]]
    found = read([write_rank(tmp_path / f"rank{rank}.json", rank, 3, calls) for rank in range(3)])
    assert [value for row in found.bytes for value in row] == [pytest.approx(1000 * BF16)] * 9


def test_of_many_ranks_neighbors_are_one() -> None:
    ranks = tuple(range(100))
    found = build_exchange_map({rank: [Exchange(ranks, (1.0,) * 100, (1.0,) * 100)] for rank in ranks})
    assert found is not None
    assert (found.ranks_per_row, len(found.ranks), found.bytes[0][0]) == (2, 50, 4.0)
    assert build_exchange_map({}) is None


def test_the_chart_has_a_cell_for_each_pair() -> None:
    figure = build_chart(ExchangeMap(ranks=(0, 3), bytes=((None, 2048.0), (512.0, 0.0))), "map").figure
    assert [len(trace["x"]) for trace in figure["data"]] == [2, 2]
    first = figure["data"][0]
    assert "2.00 KiB" in first["hovertext"][1]
    assert "unknown" in first["hovertext"][0]
    assert first["marker"]["color"][0] == "#00000000"


def test_cells_of_thousands_have_the_sum_of_their_ranks() -> None:
    groups = [tuple(range(first, first + 8)) for first in range(0, 4096, 8)]
    found = build_exchange_map(
        {rank: [Exchange(group, (2.0,) * 8, (2.0,) * 8)] for group in groups for rank in group if rank != 9}
    )
    assert found is not None
    assert (found.ranks_per_row, len(found.bytes)) == (64, 64)
    # Of rank 9, which has no trace, only what the seven others of its group receive is known.
    expected = 2.0 * 8 * 64
    assert [found.bytes[place][place] for place in range(3)] == [expected - 2.0, expected, expected]
    assert found.bytes[0][1] is None


def make_exchanges(moved: np.ndarray, ranks: range, traced: Iterable[int]) -> dict[int, list[Exchange]]:
    """The exchanges of the traced ranks of a group; `moved` are the bytes from each member to each."""
    places = {rank: place for place, rank in enumerate(ranks)}
    return {
        rank: [build_exchange(tuple(ranks), np.stack((moved[places[rank]], moved[:, places[rank]])))] for rank in traced
    }


def test_ranks_of_a_large_group_keep_a_number_for_each_block() -> None:
    ranks = range(0, 2 * MOST_PEERS + 64, 2)  # 288 of 576
    moved = np.random.default_rng(7).integers(0, 1000, (len(ranks), len(ranks))).astype(np.float64)
    exchanges = make_exchanges(moved, ranks, ranks)
    assert {len(mine[0].sent) for mine in exchanges.values()} == {36}
    found = build_exchange_map(exchanges)
    assert found is not None
    assert (found.ranks_per_row, found.ranks[:3], len(found.ranks)) == (16, (0, 16, 32), 36)
    expected = moved.reshape(36, 8, 36, 8).sum(axis=(1, 3))
    assert [list(row) for row in found.bytes] == [pytest.approx(list(row)) for row in expected]


def test_blocks_that_lack_traces_are_known_from_the_receivers() -> None:
    ranks = range(300)
    moved = np.random.default_rng(8).integers(1, 1000, (300, 300)).astype(np.float64)
    lacking = {9, 14, *range(40, 48)}
    found = build_exchange_map(make_exchanges(moved, ranks, set(ranks) - lacking))
    assert found is not None
    assert found.ranks_per_row == 8
    assert found.bytes[1][0] == pytest.approx(moved[8:16, :8].sum())
    assert found.bytes[0][1] == pytest.approx(moved[:8, 8:16].sum())
    traced = [8, 10, 11, 12, 13, 15]
    known = max(moved[traced, 8:16].sum(), moved[8:16, traced].sum())
    assert found.bytes[1][1] == pytest.approx(known)
    assert found.bytes[5][5] is None
    assert found.bytes[5][6] == pytest.approx(moved[40:48, 48:56].sum())


def test_small_and_large_groups_are_one_map() -> None:
    ranks = range(260)
    moved = np.ones((260, 260))
    exchanges = make_exchanges(moved, ranks, ranks)
    exchanges[259].append(Exchange((3, 259), (5.0, 6.0), (7.0, 6.0)))
    found = build_exchange_map(exchanges)
    assert found is not None
    assert found.ranks_per_row == 8
    assert (found.bytes[32][0], found.bytes[32][32], found.bytes[0][32]) == (4 * 8 + 5.0, 4 * 4 + 6.0, 8 * 4)
