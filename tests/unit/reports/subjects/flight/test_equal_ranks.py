"""Ranks at the same call share a row where there are many."""

import pytest

from perfkit_reports.subjects.flight.equal_ranks import (
    MOST_RANKS,
    format_rank_ranges,
    format_span,
    merge_equal_ranks,
)


def merge(calls: list[str]) -> list[tuple[int, ...]]:
    rows = list(enumerate(calls))
    merged = merge_equal_ranks(rows[::-1], lambda row: row[0], lambda row: row[1])
    assert all(row == (rank, calls[rank]) for one in merged for rank, row in zip(one.ranks, one.rows, strict=True))
    return [one.ranks for one in merged]


def test_few_ranks_have_a_row_each() -> None:
    assert len(merge(["a"] * MOST_RANKS)) == MOST_RANKS


def test_of_many_ranks_those_of_the_rarest_call_come_first() -> None:
    calls = ["a", "b"] * MOST_RANKS + ["c"]
    assert merge(calls) == [(len(calls) - 1,), tuple(range(0, len(calls) - 1, 2)), tuple(range(1, len(calls), 2))]


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ((3,), "3"),
        ((0, 1, 2, 5, 7, 8), "0-2, 5, 7-8"),
        ((0, 2, 4, 5, 6, 9), "0, 2 and 4 more"),
    ],
)
def test_ranges(ranks: tuple[int, ...], text: str) -> None:
    assert format_rank_ranges(ranks, most=2 if "more" in text else 8) == text


def test_a_span_is_one_number_where_all_agree() -> None:
    assert (format_span([7, 7]), format_span([9, 1200, 7])) == ("7", "7-1,200")
