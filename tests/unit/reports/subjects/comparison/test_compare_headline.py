"""What a comparison of runs comes to, in words."""

from pathlib import Path

import pytest

from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit_reports.document.blocks import Table
from perfkit_reports.subjects.comparison.compare_headline import build_headline, list_remarks
from perfkit_reports.subjects.comparison.comparison_document import build_document
from perfkit_reports.subjects.comparison.figures import format_amount
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, write_suite


def bench(folder: Path, *steps_s: float) -> Path:
    return write_suite(folder, {"baseline": [record(step_s) for step_s in steps_s]})


def test_the_slower_of_two(tmp_path: Path) -> None:
    comparison = compare_runs([bench(tmp_path / "a", 0.1), bench(tmp_path / "b", 0.16)])
    assert list_figures(build_headline(comparison)) == ["+60 %", "100", "160 ms"]
    assert list(list_remarks(comparison)) == []


def test_intervals_that_overlap_decide_nothing(tmp_path: Path) -> None:
    comparison = compare_runs([bench(tmp_path / "a", 0.1, 0.15, 0.2), bench(tmp_path / "b", 0.12, 0.16, 0.22)])
    assert "significant" in build_headline(comparison)
    table = build_document(comparison).summary[0]
    assert isinstance(table, Table)
    step = next(row for row in table.rows if row.title == "Step time")
    cell = table.columns[2].cell(step)
    assert (cell.detail, cell.tone) == ("+6.7 %, inconclusive", "unsure")


def test_the_fastest_of_several(tmp_path: Path) -> None:
    comparison = compare_runs(
        [bench(tmp_path / name, step_s) for name, step_s in zip("abc", (0.1, 0.2, 0.08), strict=True)]
    )
    assert build_headline(comparison).startswith("c ")
    assert list_figures(build_headline(comparison)) == ["3", "-20 %", "100", "80.0 ms"]
    assert list_figures(next(iter(list_remarks(comparison)))) == ["2", "100", "200 ms"]
    first = compare_runs([bench(tmp_path / name, step_s) for name, step_s in zip("xyz", (0.1, 0.2, 0.3), strict=True)])
    assert list_figures(build_headline(first)) == ["3", "100 ms"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.1, "s", "100 ms"), (2.0**30, "bytes", "1.00 GiB"), (0.5, "1", "50.0 %"), (12.0, "J", "12.0 J"), (4.0, "", "4")],
)
def test_figures_have_their_units(value: float, unit: str, text: str) -> None:
    assert format_amount(value, unit) == text
