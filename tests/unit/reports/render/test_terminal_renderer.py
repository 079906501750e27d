from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from perfkit_reports.document.blocks import Block, Section
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import terminal
from tests.fixtures.sample_document import FINDINGS, Kernel, bars, chart, sample, table

LONG = "void at::native::" + "very_long_kernel_name<4>" * 4


def shown(document: Document, width: int = 100, **given: Any) -> str:
    stream = StringIO()
    terminal.render(document, Console(file=stream, width=width, no_color=True), **given)
    text = stream.getvalue()
    assert all(len(line.rstrip()) <= width for line in text.splitlines() if "report: " not in line)
    return text


def of(*blocks: Block) -> Document:
    return replace(sample(), sections=(Section("s", "S", blocks),))


def test_at_first_the_headline_the_findings_and_the_brief_blocks() -> None:
    text = shown(of(*(block for section in sample().sections for block in section.blocks)))

    assert "fail: Step 10 ms on an H100\nIt is slow.\nStep time: 10 ms (of 3 steps)\nMFU: not known: no peak" in text
    assert text.index("! Warning: <script>") < text.index("▲ Gain: Fuse the copies [rank 0], up to 12.0 ms a step")
    assert "  They take 12 ms.\n  → Call copy_ once.\n" in text
    assert "2 more findings in the report" in text
    assert "gemm<float>" in text
    assert "! the clock is off" in text
    assert "Machine" not in text


def test_verbose_shows_all_but_details() -> None:
    text = shown(sample(), verbose=True)

    for part in (
        "Note 2",
        "Driver: not known: not recorded",
        "! Out of memory: It ran out of memory.",
        "█ compute-bound 75 %  ▓ idle at least 25 %",
        "Two dots, in words.",
        "In the fold.",
        "The report also has: b.",
    ):
        assert part in text, part
    assert "line 1" not in text


def test_every_warning_is_shown() -> None:
    (found,) = sample().sections[0].blocks
    text = shown(of(replace(found, items=FINDINGS[:1] + FINDINGS[1:2] * 6)))  # type: ignore[type-var]

    assert text.count("! Warning: ") == 6
    assert "1 more finding in the report" in text


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    shown(sample(), width)
    shown(sample(), width, verbose=True)


def test_a_ranked_table_is_cut_and_says_so() -> None:
    kernels = of(table(limit=40, rows=[Kernel(f"k{place}", 0.001) for place in range(33)]))

    assert "23 more kernels in the report" in shown(kernels)
    assert "3 more kernels in the report" in shown(kernels, verbose=True)


def test_names_are_whole_where_there_is_room() -> None:
    name = table().columns[0]
    cut = replace(name, cell=lambda row: replace(name.cell(row), text="very_long", whole=LONG))
    kernels = of(table(columns=(cut, *table().columns[1:]), rows=[Kernel("", 0.001)]))

    assert LONG in shown(kernels, 160)
    assert LONG not in shown(kernels, 100)


def test_columns_go_before_names_are_cut() -> None:
    kernels = of(table(rows=[Kernel("k" * 50, 0.001, "fast")]))

    assert "Note" in shown(kernels, 80)
    assert "Note" not in shown(kernels, 64)
    assert "…" in shown(kernels, 40)


def test_meters_are_drawn_where_there_is_room() -> None:
    kernels = of(table(rows=[Kernel("a", 0.008), Kernel("b", 0.004)]))

    assert "▆▆▆▆▆▆▆▆▆▆▆▆ 8 ms" in shown(kernels)
    assert "▆▆▆▆▆▆       4 ms" in shown(kernels)
    assert "▆" not in shown(kernels, 24)


def test_charts_are_told_in_words_and_several_bars_share_a_key() -> None:
    one = bars()
    ranks = replace(one, bars=tuple(replace(one.bars[0], name=f"rank {place}") for place in range(12)))
    text = shown(of(replace(chart(), weight=Weight.BRIEF), replace(ranks, weight=Weight.BRIEF)))

    assert "Two dots, in words." in text
    assert "rank 9  █" in text
    assert "2 more in the report\n█ compute-bound  ▓ idle" in text


def test_the_report_is_named_last() -> None:
    assert shown(sample(), report=Path("out/report.html")).endswith("report: out/report.html\n")
