"""Published figures of MFU, by hand and as perfkit explains them."""

import pytest

from benchmarks.mfu_published import Row, explain_row, find_match, load_rows

ROWS = load_rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_published_figure_is_explained(row: Row) -> None:
    match = find_match(row, explain_row(row))
    assert match is not None
    assert match.value == pytest.approx(row["value"], rel=1e-3)


def test_rows_are_of_many_sources() -> None:
    assert len({row["id"] for row in ROWS}) == len(ROWS) >= 20
    assert len({row["source"] for row in ROWS}) >= 12
    assert sum(bool(row["mistake"]) for row in ROWS) >= 3


def test_values_by_hand_are_those_of_their_arithmetic() -> None:
    for row in ROWS:
        assert set(row["hand"]) <= set("0123456789.e+-*/() ")
        assert eval(row["hand"]) == pytest.approx(row["value"], rel=1e-5)
