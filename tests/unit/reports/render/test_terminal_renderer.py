from io import StringIO
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from perfkit_reports.document.blocks import Section, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import terminal, terminal_tables
from tests.fixtures import sample_formats as sample


def _shown(width: int = 100, document: Document | None = None, **given: object) -> str:
    console = Console(file=StringIO(), width=width)
    terminal.render(document or sample.document(), console, **given)
    text = console.file.getvalue()
    assert all(len(line.rstrip()) <= width for line in text.splitlines() if "report: " not in line)
    return text


def _table(width: int, rows: list[tuple[str, float | None]]) -> str:
    table = sample.kernels(rows)
    return _shown(
        width,
        Document(kind="a", title="a", headline="b", perfkit="", created_at="", sections=(Section("s", "S", (table,)),)),
    )


def test_verbose_shows_all_but_details() -> None:
    text = _shown(verbose=True)

    assert "Gain 4" in text
    assert "Driver: n/a: no driver" in text
    assert "! Out of memory: It asked for 4 GiB." in text
    assert "raise ``` Error" in text
    assert "Also in the report: ops." in text
    assert "13 more kernels in the report" in text
    assert "A detail." not in text
    assert "Hidden" not in text


def test_verbose_shows_evidence_in_whole() -> None:
    from dataclasses import replace

    found = sample.findings()
    evidence = f"{'one op and another, ' * 12}and the last op"
    long = replace(found, items=tuple(structs.replace(item, evidence=evidence) for item in found.items))
    document = replace(sample.document(), summary=(long,))
    assert " ".join(_shown(document=document, verbose=True).split()).count("and the last op.") == len(found.items)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_table_is_never_wider_than_the_terminal(width: int) -> None:
    _shown(width)
    _shown(width, verbose=True)


def test_names_are_whole_where_there_is_room() -> None:
    assert sample.LONG in _table(160, sample.ROWS[:1])
    assert sample.LONG not in _table(100, sample.ROWS[:1])


def test_columns_go_before_names_are_cut() -> None:
    rows: list[tuple[str, float | None]] = [("k" * 50, 1.0)]

    assert "Calls" in _table(80, rows)
    assert "Calls" not in _table(62, rows)
    assert "…" in _table(40, rows)


def test_meters_are_drawn_where_there_is_room() -> None:
    assert "▆▆▆▆▆▆▆▆▆▆▆▆ 8 ms" in _table(100, [("a", 8.0), ("b", 4.0)])
    assert "▆▆▆▆▆▆       4 ms" in _table(100, [("a", 8.0), ("b", 4.0)])
    assert "▆" not in _table(20, [("a", 8.0)])


def test_the_report_is_named_last() -> None:
    assert _shown(report=Path("out/report.html")).endswith("out/report.html\n")


def test_second_lines_give_way_where_numbers_would_be_cut() -> None:
    """The bare figure is whole on a narrow terminal, where its detail has no room."""
    from perfkit_reports.document.blocks import Table
    from perfkit_reports.document.cells import Cell
    from perfkit_reports.document.tables import Column
    from perfkit_reports.document.weight import Weight

    columns = [
        Column[str](f"Rate {place}", lambda row: Cell(row, detail="0.79–0.82×"), weight=Weight.BRIEF)
        for place in range(5)
    ]
    table = Table(id="t", title="T", columns=columns, rows=["12,345"], weight=Weight.BRIEF)
    document = Document(
        kind="a", title="a", headline="b", perfkit="", created_at="", sections=(Section("s", "S", (table,)),)
    )
    narrow, wide = _shown(50, document, verbose=True), _shown(100, document, verbose=True)
    assert (narrow.count("12,345"), wide.count("12,345")) == (5, 5)
    assert (narrow.count("0.79–0.82×"), wide.count("0.79–0.82×")) == (2, 5)


@pytest.mark.parametrize(
    ("room", "lines"),
    [
        (40, "offload:what=optimizer:to=disk"),
        (20, "offload:what=\noptimizer:to=disk"),
        (10, "offload:\nwhat=\noptimizer:\nto=disk"),
    ],
)
def test_names_of_variants_are_folded_where_a_parameter_begins(room: int, lines: str) -> None:
    assert terminal_tables._fold_name("offload:what=optimizer:to=disk", room) == lines


def test_brief_columns_at_the_end_give_way_before_the_table_does() -> None:
    columns = tuple(
        Column(f"figure {place}", lambda row, place=place: Cell(f"{row} {place} x" * 2), weight=Weight.BRIEF)
        for place in range(6)
    )
    table = Table(id="t", title="t", columns=columns, rows=(1, 2), what="row")
    fitted = {width: terminal_tables.fit_table(table, (1, 2), width) for width in (200, 60, 20)}
    counts = {width: None if drawn is None else len(drawn.columns) for width, drawn in fitted.items()}
    assert counts[200] == 6
    assert 3 <= (counts[60] or 0) < 6
    assert counts[20] is None
