"""A document on one screen: counted lines, of the most important kinds, whatever its size."""

from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console

from perfkit.analysis.model.finding import Finding
from perfkit_reports.cells import make_code_cell
from perfkit_reports.document.blocks import Block, Findings, Section, Table, Text, walk_blocks
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.fixes import Fix, Fixes
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import terminal
from perfkit_reports.render.terminal_summary import LINES
from perfkit_reports.subjects.registry import build_document
from tests.fixtures import (
    sample_analysis,
    sample_checks,
    sample_loops,
    sample_memory_analysis,
    sample_plans,
    sample_trace_analysis,
)
from tests.fixtures import sample_formats as sample


def show(document: Document, width: int = 80) -> list[str]:
    stream = StringIO()
    terminal.render(document, Console(file=stream, width=width, height=24, no_color=True))
    lines = stream.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return lines


def make_document(*blocks: Block, **fields: Any) -> Document:
    empty = Document(kind="a", title="a", headline="A headline", perfkit="", created_at="", sections=())
    return replace(empty, sections=(Section("s", "S", blocks),), **fields)


def make_table(count: int, limit: int | None = 100) -> Table:
    """Kernels with long names, the op of each with its module, and five figures."""
    figures = [
        Column[int](f"Figure number {place}", lambda row: Cell(f"{row}.{row:02d} ms", value=row), weight=Weight.BRIEF)
        for place in range(5)
    ]
    columns = (
        Column[int](
            "Kernel",
            lambda row: make_code_cell(f"kernel_{row}<at::native::Functor<float, {row}>, std::array<char*, 3>>"),
            numeric=False,
            code=True,
            weight=Weight.BRIEF,
        ),
        *figures,
        Column[int](
            "Op",
            lambda row: Cell(f"op{row}", detail="layers.*.mlp"),
            numeric=False,
            code=True,
            weight=Weight.BRIEF,
        ),
    )
    return Table(id="t", title="T", columns=columns, rows=range(count), what="kernel", limit=limit, weight=Weight.BRIEF)


def make_findings(count: int, severity: str = "gain") -> Findings:
    example: Finding = sample.findings().items[0]
    items = tuple(
        structs.replace(
            example,
            id=f"rule.number{place}",
            severity=severity,
            title=f"A title of a finding with number {place} and many words",
            action="Change the program in the way that this sentence describes at some length, and measure again",
        )
        for place in range(count)
    )
    return Findings(id="found", items=items, weight=Weight.BRIEF)


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize(("rows", "findings"), [(0, 30), (1, 0), (9, 2), (400, 30)])
def test_a_document_of_any_size_has_room_on_a_screen(width: int, rows: int, findings: int) -> None:
    reasons = Text(id="x", lines=tuple("word " * 40 for _ in range(9)), style="list", weight=Weight.BRIEF)
    blocks = (make_table(rows), make_table(rows, limit=None), make_findings(findings), reasons)
    lines = show(make_document(*blocks, lead=("lead " * 60,) * 3, headline="head " * 90), width)
    assert len(lines) <= LINES


def test_a_small_document_is_shown_uncut() -> None:
    lines = show(make_document(make_findings(1), lead=("A lead",), headline="word " * 30))
    assert [line for line in lines if "…" in line] == []
    assert sum("[rule.number0]" in line for line in lines) == 1
    assert len(lines) == 2 + 1 + 4  # headline, lead, title and action


def test_three_findings_keep_their_ids_and_the_others_are_counted() -> None:
    lines = show(make_document(make_table(30), make_findings(5)))
    named = [line.split("[")[1].rstrip("]") for line in lines if "[rule." in line]
    assert named == ["rule.number0", "rule.number1", "rule.number2"]
    shown = sum(" op" in line for line in lines)
    assert 6 <= shown <= 10
    assert lines[-1].startswith(f"{30 - shown} more kernels, 2 more findings")


def test_fixes_of_the_page_have_the_ids_of_their_findings() -> None:
    found = make_findings(5)
    anchors = [anchor for anchor, _ in found.anchored]
    fixes = tuple(
        Fix(f"do {place}", Cell(f"{place} ms"), f"Do it {place} times.", "simulated", anchor=anchors[place])
        for place in (3, 1)
    )
    lines = show(make_document(found, first=(Fixes(id="fixes", items=fixes),)))
    ids = [line.split("[")[1].rstrip("]") for line in lines if "[rule." in line]
    assert ids == ["rule.number3", "rule.number1", "rule.number0"]
    assert [line.split("saves ")[1] for line in lines if "saves " in line] == ["3 ms (simulated)", "1 ms (simulated)"]
    assert "2 more findings" in lines[-1]


def test_warnings_come_before_gains() -> None:
    lines = show(make_document(make_findings(3), replace(make_findings(1, "warning"), id="others")))
    assert sum("[rule." in line for line in lines) == 4
    lines = show(
        make_document(replace(make_findings(0), items=(*make_findings(3).items, *make_findings(4, "warning").items)))
    )
    assert sum(line.startswith("! ") for line in lines) == 3
    assert "1 more warning, 3 more findings" in lines[-1]


def test_names_of_kernels_are_shortened_before_their_ops_give_way() -> None:
    lines = show(make_document(make_table(4)))
    rows = [line for line in lines if "kernel_" in line]
    assert [[part for part in row.split() if part.startswith("op")] for row in rows] == [[f"op{n},"] for n in range(4)]
    assert all("<" not in row for row in rows)
    assert "Functor" in "".join(show(make_document(make_table(4)), 200))


def test_a_row_is_a_line_with_its_details_where_they_have_room() -> None:
    columns = (
        Column[str]("Variant", lambda row: Cell(row, detail="skipped" if row == "b" else ""), numeric=False),
        Column[str]("Step", lambda row: Cell("8 ms", detail="7–9 ms"), weight=Weight.BRIEF),
        Column[str]("Speed-up", lambda row: Cell("▲ 1.25×", detail="1.24–1.26×"), weight=Weight.BRIEF),
    )
    table = Table(id="t", title="T", columns=columns, rows=["a", "b"], what="variant", weight=Weight.BRIEF)
    wide, narrow = show(make_document(table), 80), show(make_document(table), 34)
    assert wide[-2].split("  ")[0].strip() == "a"
    assert all(part in wide[-1] for part in ("b, skipped", "8 ms (7–9 ms)", "▲ 1.25× (1.24–1.26×)"))
    assert "▲ 1.25×" in narrow[-1]
    assert "1.26" not in narrow[-1]


@pytest.mark.parametrize(
    "analysis",
    [
        sample_analysis.every_status,
        sample_trace_analysis.realistic,
        sample_trace_analysis.many_ranks,
        sample_memory_analysis.realistic,
        sample_plans.ranks,
        sample_checks.many,
        sample_checks.hostile,
        sample_loops.with_capture,
    ],
)
def test_every_kind_of_report_has_room_on_a_screen(analysis: Callable[[], Any]) -> None:
    document = build_document(analysis())
    lines = show(document)
    assert len(lines) <= LINES
    found = [block for block in walk_blocks(document.blocks, Weight.BRIEF) if isinstance(block, Findings)]
    ids = {finding.id for block in found for finding in block.items}
    assert sum(line.rstrip().endswith(tuple(f"[{id}]" for id in ids)) for line in lines) == min(len(ids), 3)
