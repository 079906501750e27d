import re

from perfkit.analysis.model.suite import Analysis
from perfkit_reports import markdown
from perfkit_reports.marks import folded
from tests.fixtures.sample_analysis import TRACEBACK


def rows(text: str) -> list[list[str]]:
    """The cells of the first table, split where a bar is not escaped."""
    lines = next(block for block in text.split("\n\n") if block.startswith("| Variant")).splitlines()
    return [[cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")] for line in lines]


def test_the_summary_is_a_table_of_equal_rows(analysis: Analysis) -> None:
    table = rows(markdown.render(analysis))
    assert {len(row) for row in table} == {len(table[0])}
    assert len(table) == 2 + len(analysis.variants)


def test_a_row_shows_the_figures(realistic: Analysis) -> None:
    amp = rows(markdown.render(realistic))[3]
    assert amp[:2] == ["**amp**", "ok"]
    assert "1.62× (1.59–1.65×)" in amp
    assert "305 MiB (-26.0 %)" in amp


def test_hostile_text_forms_no_markup(every_status: Analysis) -> None:
    text = markdown.render(every_status)
    outside_code = text.replace(TRACEBACK.rstrip(), "")
    assert "<img" not in outside_code
    assert "</script>" not in outside_code
    assert not re.search(r"(?<!\\)\]\(", outside_code)  # no bracket that could close a link's text


def test_a_traceback_keeps_its_lines_in_a_fence_that_it_cannot_close() -> None:
    text = folded("t", "a\n````\nb")
    assert "`````\na\n````\nb\n`````" in text


def test_reasons_findings_and_balance_are_there(realistic: Analysis) -> None:
    text = markdown.render(realistic)
    assert "out of memory at step 3, peak 1.93 GiB" in text
    assert "- **Gain: Train in bf16**. Variant: amp. Up to 76.6 ms a step and 107 MiB." in text
    assert "412 MiB at the peak in backward = activation 318 MiB" in text
