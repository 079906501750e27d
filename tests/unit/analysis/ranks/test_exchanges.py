"""Bytes of all-to-alls between each two ranks."""

from pathlib import Path

import pytest

from perfkit.analysis.model.fleet import ExchangeMap
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.ranks.exchanges import Exchange, build_exchange_map
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
