"""Results in Python: frames, a notebook's summary, a page."""

import re
from html import unescape
from pathlib import Path

import pytest

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.store.summary import REPORT_FILE
from tests.fixtures import sample_analysis, sample_checks, sample_trace_analysis
from tests.fixtures import sample_memory_analysis as sample
from tests.fixtures.parsed_page import Page


@pytest.fixture
def analysis() -> MemoryAnalysis:
    return sample.alone()


def test_a_frame_holds_every_row_typed_with_its_units(analysis: MemoryAnalysis) -> None:
    pytest.importorskip("pandas")
    rows = analysis.frame("memory_rows")
    assert rows["bytes"].sum() == analysis.accounts[0].peak_bytes
    assert str(rows["bytes"].dtype) == "Int64"
    assert rows.attrs["units"] == {"bytes": "B"}
    assert analysis.frame("memory_timeline").attrs["units"] == {"time_s": "s", "bytes": "B"}


def test_a_table_that_is_not_there_is_refused_with_those_that_are(analysis: MemoryAnalysis) -> None:
    pytest.importorskip("pandas")
    with pytest.raises(KeyError, match=r"'kernels'.* memory_timeline"):
        analysis.frame("kernels")


def test_the_page_is_written_whole(analysis: MemoryAnalysis, tmp_path: Path) -> None:
    path = analysis.to_html(tmp_path / "page.html")
    assert path == tmp_path / "page.html"
    assert "412 MiB" in Page(path.read_text(encoding="utf-8")).text


def test_the_page_has_a_name_of_its_own(
    analysis: MemoryAnalysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert analysis.to_html() == Path(REPORT_FILE)
    assert (tmp_path / REPORT_FILE).is_file()


def test_a_notebook_shows_the_headline_and_the_figure_at_the_peak(analysis: MemoryAnalysis) -> None:
    pytest.importorskip("matplotlib")
    text = analysis._repr_html_()
    assert re.search(r"412.MiB", unescape(text))
    assert text.count("data:image/png;base64,") == 1
    assert "<script" not in text


@pytest.mark.parametrize(
    ("result", "table", "column", "unit"),
    [
        (sample_analysis.realistic(), "variants", "step_s", "s"),
        (sample_trace_analysis.alone(), "kernels", "flops", "FLOP"),
        (sample_checks.every_verdict(), "ops", "before_bytes", "B"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, DisplayMixin) else None,
)
def test_suites_traces_and_checks_show_themselves_alike(
    result: DisplayMixin, table: str, column: str, unit: str
) -> None:
    pytest.importorskip("pandas")
    rows = result.frame(table)
    assert len(rows) > 0
    assert rows.attrs["units"][column] == unit
    assert rows[column].notna().any()
    assert "<p" in result._repr_html_()
