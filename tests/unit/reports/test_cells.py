from perfkit_reports.cells import count, known, text
from perfkit_reports.document.cells import Cell, unknown
from perfkit_reports.document.tables import NOTHING, Column, telling


def test_whole_counts_have_no_decimals() -> None:
    assert [count(value) for value in (2.0, 1204.0, 77.5, 0.333333)] == ["2", "1,204", "77.5", "0.333"]


def test_what_is_not_known_is_no_number_and_says_why() -> None:
    cell = known(None, str, "why")
    assert not cell.known
    assert (cell.text, cell.reason, cell.value) == ("n/a", "why", None)
    assert known(0.0, str, "why").known
    assert Cell("short", reason="the whole name").known


def test_columns_that_say_nothing_are_left_out() -> None:
    columns = [Column[str]("a", text), Column[str]("b", lambda _: text("")), Column[str]("c", lambda _: unknown("why"))]
    assert text("").text == NOTHING
    assert [column.title for column in telling(columns, ["x"])] == ["a", "c"]
    assert telling(columns, []) == []
