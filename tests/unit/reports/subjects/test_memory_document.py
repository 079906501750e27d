"""What the report on memory says, block by block, and that every format can show it."""

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.store.summary import MEMORY_REPORT_FILE
from perfkit_reports.document.blocks import Chart, Facts, Table, Text
from perfkit_reports.document.raw import encode_json
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import html, markdown, terminal
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.memory import build_document
from tests.fixtures import sample_memory_analysis as sample
from tests.fixtures.document_blocks import blocks, column
from tests.fixtures.figures import list_figures
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import HOSTILE

ALL = ("realistic", "alone", "out_of_memory", "bare", "nothing", "hostile")


def shown(analysis: MemoryAnalysis, width: int = 100, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    terminal.render(build_document(analysis), Console(file=stream, width=width, no_color=True), verbose=verbose)
    return stream.getvalue()


@pytest.fixture(params=ALL)
def analysis(request: pytest.FixtureRequest) -> MemoryAnalysis:
    made: MemoryAnalysis = getattr(sample, request.param)()
    return made


def test_every_form_is_written(analysis: MemoryAnalysis, tmp_path: Path) -> None:
    paths = write_document(build_document(analysis), tmp_path, figures=Weight.BRIEF)
    names = {path.relative_to(tmp_path).as_posix() for path in paths}
    assert names >= {"report.html", MEMORY_REPORT_FILE, "summary.json", "report.md", "tables/memory_rows.parquet"}
    assert ("figures/memory-peak.png" in names) == bool(analysis.accounts)
    assert all(path.stat().st_size for path in paths)
    assert paths[0].name == "report.html"


def test_the_json_comes_back(analysis: MemoryAnalysis) -> None:
    assert (
        msgspec.json.decode(encode_json(build_document(analysis).raw[MEMORY_REPORT_FILE]), type=MemoryAnalysis)
        == analysis
    )


def test_the_fullest_device_comes_first_with_all_of_its_parts() -> None:
    found = blocks(build_document(sample.realistic()))

    assert list(found["memory-of"].options) == [("cuda:0",), ("cpu",)]  # type: ignore[attr-defined]
    assert column(found["memory-balance"], "Device") == ["cuda:0", "cpu"]
    assert list_figures(column(found["memory-balance"], "Balance")[0])[:2] == ["1.37 GiB", "700 MiB"]
    assert {"12.0 MiB"} <= {*list_figures(column(found["memory-balance"], "Process memory")[0])}
    assert list_figures(column(found["memory-growth-0"], "Source line")[0]) == ["88"]
    assert column(found["memory-largest-0"], "Source line")[0] == "gpt.py:143 forward"
    assert column(found["memory-largest-0"], "Freed by")[0] == "aten::_log_softmax_backward_data"
    assert column(found["memory-modules-0"], "Module")[0] == "h.*.mlp"
    assert column(found["memory-ops-1"], "Module")[0] == "head"
    assert column(found["memory-reserved-0"], "Size") == ["1.37 GiB", "96.0 MiB", "304 MiB"]
    steps = found["memory-steps-0"]
    assert isinstance(steps, Chart)
    assert list_figures(steps.caption)[:3] == ["1.23 GiB", "1.37 GiB", "4"]
    grows = found["memory-growth-0"]
    assert isinstance(grows, Table)
    assert list_figures(grows.caption) == ["12.0 MiB", "2", "4"]


def test_one_device_needs_no_choice_and_no_name() -> None:
    found = blocks(build_document(sample.alone()))

    assert "memory-of" not in found
    balance = found["memory-balance"]
    assert isinstance(balance, Facts)
    assert [name for name, _ in balance.items] == ["Balance", "Process memory", "Source"]


def test_running_out_of_memory_is_an_alarm() -> None:
    failed = blocks(build_document(sample.out_of_memory()))["memory-failed-0"]

    assert isinstance(failed, Text)
    assert failed.title == "Out of memory"
    assert all(part in failed.lines[0] for part in ("64.0 MiB", "aten::mm", "h.1.mlp.up"))


def test_what_was_not_recorded_is_said_and_never_zero() -> None:
    bare = build_document(sample.bare())
    found = blocks(bare)
    over_time = found["memory-timeline-0"]
    assert isinstance(over_time, Text)
    assert "timeline" in over_time.lines[0]
    assert [tile.cell.known for tile in bare.tiles if tile.title == "Reserved but free"] == [False]
    assert "memory-reserved-0" not in found
    assert "memory-bytes-0" not in found
    assert next(iter(blocks(build_document(sample.nothing())))) == "memory-none"


def test_rows_hold_every_byte_and_categories_sum_to_the_peak() -> None:
    made = sample.realistic()
    tables = {data.name: data for data in build_document(made).data}
    for account in made.accounts:
        rows = [row for row in tables["memory"].rows() if row["device"] == account.device and row["in_peak"]]
        assert sum(row["bytes"] for row in rows) == account.peak_bytes
    assert len(tables["memory_rows"].rows()) == sum(len(account.rows) for account in made.accounts)
    assert len(tables["memory_growth"].rows()) == 2
    assert list(tables["memory_largest"].schema)[:3] == ["device", "bytes", "category"]


def test_the_terminal_is_a_screenful(analysis: MemoryAnalysis) -> None:
    lines = shown(analysis).splitlines()
    assert max(len(line) for line in lines) <= 100
    if len(analysis.accounts) == 1 and len(analysis.accounts[0].categories) < 8:
        assert len(lines) < 50


def test_the_terminal_tells_peak_parts_growth_and_what_to_do() -> None:
    text = " ".join(shown(sample.realistic(), 200, verbose=True).split())
    for part in (
        "Peak 1.37 GiB in backward",
        "700 MiB 50.0 %",
        "Growth: 12.0 MiB",
        "[cuda:0], up to 420 MiB",
    ):
        assert part in text, part
    assert {"980 MiB"} <= {*list_figures(" ".join(shown(sample.alone(), verbose=True).split()))}


def test_hostile_text_forms_no_markup_in_any_format() -> None:
    made = build_document(sample.hostile())
    page = Page(html.render(made))
    assert page.intruders() == []
    assert page.loaded() == []
    assert HOSTILE in page.text
    text = markdown.render(made)
    assert "<img" not in text
    assert "[x]" not in text
    assert HOSTILE in " ".join(shown(sample.hostile(), width=1000).split())
