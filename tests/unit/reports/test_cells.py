from perfkit_reports.cells import format_count, make_optional_cell, make_text_cell
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING, Column, drop_empty_columns


def test_whole_counts_have_no_decimals() -> None:
    assert [format_count(value) for value in (2.0, 1204.0, 77.5, 0.333333)] == ["2", "1,204", "77.5", "0.333"]


def test_what_is_not_known_is_no_number_and_says_why() -> None:
    cell = make_optional_cell(None, str, "why")
    assert not cell.known
    assert (cell.text, cell.reason, cell.value) == ("n/a", "why", None)
    assert make_optional_cell(0.0, str, "why").known
    assert Cell("short", reason="the whole name").known


def test_columns_that_say_nothing_are_left_out() -> None:
    columns = [
        Column[str]("a", make_text_cell),
        Column[str]("b", lambda _: make_text_cell("")),
        Column[str]("c", lambda _: make_unknown_cell("why")),
    ]
    assert make_text_cell("").text == NOTHING
    assert [column.title for column in drop_empty_columns(columns, ["x"])] == ["a", "c"]
    assert drop_empty_columns(columns, []) == []
