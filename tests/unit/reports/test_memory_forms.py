"""The report on memory in every other form: files, Markdown, terminal, tables, static figures."""

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from perfkit.analysis.memory.result import MemoryAnalysis
from perfkit.store.summary import MEMORY_REPORT_FILE
from perfkit_reports import memory_markdown, memory_tables, memory_terminal
from perfkit_reports.memory_write import memory_json, write_memory_reports
from tests.fixtures import sample_memory_analysis as sample
from tests.fixtures.sample_analysis import HOSTILE

ALL = ("realistic", "alone", "out_of_memory", "bare", "nothing", "hostile")


@pytest.fixture(params=ALL)
def analysis(request: pytest.FixtureRequest) -> MemoryAnalysis:
    made: MemoryAnalysis = getattr(sample, request.param)()
    return made


def shown(analysis: MemoryAnalysis, width: int = 100) -> str:
    stream = io.StringIO()
    memory_terminal.render(analysis, Console(file=stream, width=width, no_color=True), Path("out"))
    return stream.getvalue()


def test_every_form_is_written(analysis: MemoryAnalysis, tmp_path: Path) -> None:
    paths = write_memory_reports(analysis, tmp_path, static=True)
    names = {path.relative_to(tmp_path).as_posix() for path in paths}
    assert names >= {"report.html", MEMORY_REPORT_FILE, "report.md", "tables/memory_rows.parquet"}
    assert ("figures/memory-peak.png" in names) == bool(analysis.accounts)
    assert all(path.stat().st_size for path in paths)
    assert paths[0].name == "report.html"


def test_the_json_comes_back(analysis: MemoryAnalysis) -> None:
    assert msgspec.json.decode(memory_json(analysis), type=MemoryAnalysis) == analysis


def test_tables_hold_every_row_and_categories_sum_to_the_peak() -> None:
    made = sample.realistic()
    tables = memory_tables.tables(made)
    for account in made.accounts:
        rows = [row for row in tables["memory"].to_pylist() if row["device"] == account.device and row["in_peak"]]
        assert sum(row["bytes"] for row in rows) == account.peak_bytes
    assert tables["memory_rows"].num_rows == sum(len(account.rows) for account in made.accounts)
    assert tables["memory_growth"].num_rows == 2
    assert tables["memory_largest"].column_names[:3] == ["device", "bytes", "category"]


def test_the_terminal_holds_the_balance_on_lines_no_wider_than_it(analysis: MemoryAnalysis) -> None:
    lines = shown(analysis).splitlines()
    assert max(len(line) for line in lines) <= 100
    if len(analysis.accounts) == 1:
        assert len(lines) < 60  # a screenful: the bars, the balance, five blocks
    assert lines[-1] == "report: out/report.html"


def test_the_terminal_tells_peak_parts_growth_and_blocks() -> None:
    text = " ".join(shown(sample.realistic()).split())
    for part in (
        "Peak 1.37 GiB in backward of step 3 on cuda:0",
        "700 MiB, 50.0 %",
        "= 2.83 GiB, the process: NVML",
        "! Each step leaves 12.0 MiB behind",
        "aten::addmm in head",
        "Recompute the activations of the blocks [cuda:0], up to 420 MiB",
    ):
        assert part in text, part


def test_markdown_holds_balance_failure_growth_and_tables() -> None:
    text = memory_markdown.render(sample.realistic())
    for part in ("1.37 GiB at the peak in backward = activation 700 MiB", "Each step leaves 12.0 MiB", "train.py:88"):
        assert part in text, part
    assert "An allocation of 64.0 MiB failed: by aten::mm" in memory_markdown.render(sample.out_of_memory())


def test_names_form_no_markup() -> None:
    text = memory_markdown.render(sample.hostile())
    assert "<img" not in text
    assert "[x]" not in text
    assert HOSTILE in " ".join(shown(sample.hostile(), width=1000).split())
