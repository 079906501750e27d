"""What the report on a plan says, and that every format can show it."""

import io
from pathlib import Path

import msgspec
import plotly.graph_objects as go
import pytest
from rich.console import Console

from perfkit.analysis.model.plan import Plan
from perfkit.analysis.suite.plan import read_plan
from perfkit.errors import RunFormatError
from perfkit.plan.verdict import verdict
from perfkit.store.listing import list_runs
from perfkit.store.summary import PLAN_FILE
from perfkit_reports.document.blocks import Chart
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import terminal
from perfkit_reports.render.write import write
from perfkit_reports.subjects.plan import cells
from perfkit_reports.subjects.plan.document import document
from perfkit_reports.subjects.registry import document_of
from tests.fixtures import sample_plans as sample
from tests.fixtures.document_blocks import blocks, column

ALL = ("realistic", "alone", "ranks", "nothing")


def shown(plan: Plan) -> str:
    stream = io.StringIO()
    terminal.render(document(plan), Console(file=stream, width=120, no_color=True))
    return stream.getvalue()


@pytest.mark.parametrize("name", ALL)
def test_every_form_is_written_and_comes_back(name: str, tmp_path: Path) -> None:
    plan = getattr(sample, name)()
    paths = write(document(plan), tmp_path, figures=Weight.DETAIL)
    assert {path.name for path in paths} >= {"report.html", "report.md", "plan.json", "summary.json"}
    assert read_plan(tmp_path) == plan
    assert document_of(tmp_path).headline == document(plan).headline
    (listed,) = list_runs(tmp_path)
    assert (listed.kind, listed.state, listed.reported) == ("plan", "ok", True)


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    (tmp_path / PLAN_FILE).write_bytes(msgspec.json.encode({**msgspec.to_builtins(sample.alone()), "guess": 1}))
    with pytest.raises(RunFormatError, match=r"plan\.json.*guess"):
        read_plan(tmp_path)


def test_the_headline_says_what_fits_and_what_needs_the_least() -> None:
    assert document(sample.realistic()).headline == (
        "2 of 3 variants may fit into 1.00 GiB. "
        "ckpt needs the least memory: 652 MiB – 1.12 GiB, -47.2 % against the baseline."
    )
    assert document(sample.alone()).headline == "baseline needs 412 MiB."
    assert document(sample.nothing()).headline == "What the variants need is not known."


def test_a_row_has_the_peak_what_is_needed_whether_it_fits_and_how_long_it_takes() -> None:
    table = blocks(document(sample.realistic()))["variants"]
    assert column(table, "Allocator's peak") == ["1.17 GiB", "700 MiB", "420 MiB", "n/a"]
    assert column(table, "Needed") == ["1.61 GiB", "1.12 GiB", "872 MiB", "n/a"]  # 452 MiB more
    assert column(table, "Fits") == ["does not fit", "may fit", "may fit", "n/a"]
    assert column(table, "Step time") == ["220 ms", "140 ms", "290 ms", "n/a"]


def test_the_sentence_and_the_table_tell_one_figure_of_what_is_too_much() -> None:
    baseline, *_ = sample.realistic().variants
    assert baseline.needed_bytes is not None
    detail = cells.fits(baseline, sample.GIB).detail
    assert detail == "at least 408 MiB too much"  # 1200 + 452 - 220 of 1024 MiB
    assert verdict(baseline.needed_bytes, sample.GIB) == f"does not fit: {detail}"


def test_what_is_not_known_has_no_column_and_the_reason_is_told() -> None:
    table = blocks(document(sample.alone()))["variants"]
    assert [each.title for each in table.columns] == ["Variant", "Allocator's peak", "Largest parts"]
    assert "scratch memory of aten::convolution is not in the peak" in shown(sample.alone())
    assert "tf32: TF32 is of NVIDIA GPUs" in shown(sample.realistic())


def test_bars_are_as_long_as_what_is_needed_with_its_bounds_and_the_limit() -> None:
    chart = blocks(document(sample.realistic()))["needed"]
    assert isinstance(chart, Chart)
    go.Figure(chart.figure)
    bars = [trace for trace in chart.figure["data"] if trace["type"] == "bar"]
    lengths = {
        name: sum(x for bar in bars for x, y in zip(bar["x"], bar["y"], strict=True) if y == name)
        for name in ("amp", "ckpt")
    }
    assert lengths == pytest.approx({"amp": 1152 / 1024, "ckpt": 872 / 1024})
    (bounds,) = (trace for trace in chart.figure["data"] if trace["type"] == "scatter")
    assert bounds["error_x"]["array"] == pytest.approx([280 / 1024] * 3)
    assert bounds["error_x"]["arrayminus"] == pytest.approx([220 / 1024] * 3)
    (line,) = chart.figure["layout"]["shapes"]
    assert (line["x0"], line["x1"]) == (1.0, 1.0)


def test_a_limit_far_beyond_the_bars_is_told_in_words() -> None:
    chart = blocks(document(sample.ranks()))["needed"]
    assert isinstance(chart, Chart)
    assert not chart.figure["layout"]["shapes"]
    assert chart.caption == "A rank may take 80.0 GiB, far beyond these bars."


def test_the_course_of_a_step_that_was_never_run_has_no_seconds() -> None:
    chart = blocks(document(sample.alone()))["memory-timeline-0"]
    assert isinstance(chart, Chart)
    assert chart.figure["layout"]["xaxis"]["title"]["text"].startswith("calls, allocations and frees in step 1")
    assert chart.figure["layout"]["annotations"][0]["text"] == "peak 412 MiB<br>backward"
    assert chart.figure["layout"]["xaxis"]["range"][1] == pytest.approx(3000)
    assert "memory_timeline" not in {data.name for data in document(sample.alone()).data}


def test_more_ranks_are_held_against_the_fewest() -> None:
    found = blocks(document(sample.ranks()))
    table = found["scaling-table"]
    assert column(table, "Variant") == ["baseline", "baseline@2", "baseline@8", "zero3", "zero3@2", "zero3@8"]
    # 0.2 s on one rank, 0.22 s on two and 0.34 s on eight; 0.23 s and 0.41 s with zero3.
    assert column(table, "Scaling efficiency") == ["100.0 %", "90.9 %", "58.8 %", "100.0 %", "87.0 %", "48.8 %"]
    assert set(column(table, "Takes the most")) == {"GEMM"}
    chart = found["scaling-memory"]
    assert isinstance(chart, Chart)
    go.Figure(chart.figure)
    _, zero3 = chart.figure["data"]
    assert zero3["x"] == [1, 2, 8]
    assert zero3["y"] == pytest.approx([1152 / 1024, 952 / 1024, 802 / 1024])  # 300 + 400 / N + 452 MiB
    assert "scaling-table" not in blocks(document(sample.realistic()))
