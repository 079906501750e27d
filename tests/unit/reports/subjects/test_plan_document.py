"""What the report on a plan says, and that every format can show it."""

import io
import json
from pathlib import Path

import msgspec
import plotly.graph_objects as go
import pytest
from msgspec.structs import replace
from rich.console import Console

from perfkit.analysis.model.plan import Plan
from perfkit.analysis.suite.prediction import read_plan
from perfkit.core.errors import RunFormatError
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.plan.variants.verdict import format_verdict
from perfkit.store.listing import list_runs
from perfkit.store.summary import PLAN_FILE
from perfkit_reports.document.blocks import Chart
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import terminal
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.plan import plan_cells
from perfkit_reports.subjects.plan.plan_document import build_document
from perfkit_reports.subjects.plan.plan_headline import find_leanest
from perfkit_reports.subjects.registry import load_document
from tests.fixtures import sample_plans as sample
from tests.fixtures.document_blocks import blocks, column
from tests.fixtures.figures import list_figures

ALL = ("realistic", "alone", "ranks", "nothing")


def shown(plan: Plan) -> str:
    stream = io.StringIO()
    terminal.render(build_document(plan), Console(file=stream, width=120, no_color=True))
    return stream.getvalue()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name == "ranks" else name for name in ALL]
)
def test_every_form_is_written_and_comes_back(name: str, tmp_path: Path) -> None:
    plan = getattr(sample, name)()
    paths = write_document(build_document(plan), tmp_path, figures=Weight.DETAIL)
    assert {path.name for path in paths} >= {"report.html", "report.md", "plan.json", "summary.json"}
    assert read_plan(tmp_path) == plan
    assert load_document(tmp_path).headline == build_document(plan).headline
    (listed,) = list_runs(tmp_path)
    assert (listed.kind, listed.state, listed.reported) == ("plan", "ok", True)


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    (tmp_path / PLAN_FILE).write_bytes(msgspec.json.encode({**msgspec.to_builtins(sample.alone()), "guess": 1}))
    with pytest.raises(RunFormatError, match=r"plan\.json.*guess"):
        read_plan(tmp_path)


def test_the_headline_says_what_fits_and_what_needs_the_least() -> None:
    fitting = replace(sample.realistic(), limit_bytes=1200 * sample.MIB)
    *known, unknown = fitting.variants
    fits = (None, None, True)
    variants = [replace(each, fits=fit, verdict="fits") for each, fit in zip(known, fits, strict=True)]
    fitting = replace(fitting, variants=(*variants, unknown))
    assert list_figures(build_document(fitting).headline) == ["1", "3", "1.17 GiB", "-47.2 %"]


def test_the_only_known_variant_is_not_the_least_if_its_fit_is_unknown() -> None:
    plan = sample.realistic()
    _, amp, _, tf32 = plan.variants
    assert (amp.fits, tf32.needed_bytes) == (None, None)
    assert find_leanest(replace(plan, variants=(amp, tf32))) is None
    assert find_leanest(replace(plan, variants=(amp,))) == amp  # planned alone


def test_a_variant_planned_alone_is_compared_with_none() -> None:
    plan = sample.realistic()
    _, amp, _, _ = plan.variants
    tiles = [tile.title for tile in build_document(replace(plan, variants=(amp,))).tiles]
    assert tiles == ["Needed memory", "Step time", "Memory limit"]


def test_no_variant_is_the_least_or_fastest_if_its_fit_is_unknown() -> None:
    document = build_document(sample.realistic())
    assert list_figures(document.headline) == ["2", "3", "1.00 GiB"]
    assert [tile.title for tile in document.tiles] == ["Memory limit"]


def test_a_plan_without_a_limit_says_what_it_needs() -> None:
    assert build_document(sample.alone()).headline == "baseline needs 412 MiB."
    assert "unknown" in build_document(sample.nothing()).headline


def test_a_row_has_the_peak_what_is_needed_whether_it_fits_and_how_long_it_takes() -> None:
    table = blocks(build_document(sample.realistic()))["variants"]
    assert column(table, "Allocator peak") == ["1.17 GiB", "700 MiB", "420 MiB", "n/a"]
    assert column(table, "Needed") == ["1.61 GiB", "1.12 GiB", "872 MiB", "n/a"]  # 452 MiB more
    assert column(table, "Fits") == ["does not fit", "may fit", "may fit", "n/a"]
    assert column(table, "Step time") == ["220 ms", "140 ms", "290 ms", "n/a"]


def test_the_sentence_and_the_table_tell_one_figure_of_what_is_too_much() -> None:
    baseline, *_ = sample.realistic().variants
    assert baseline.needed_bytes is not None
    detail = plan_cells.make_fits_cell(baseline, sample.GIB).detail
    assert list_figures(detail) == ["408 MiB"]  # 1200 + 452 - 220 of 1024 MiB
    assert format_verdict(baseline.needed_bytes, sample.GIB) == f"does not fit: {detail}"


def test_what_is_not_known_has_no_column_and_the_reason_is_told() -> None:
    table = blocks(build_document(sample.alone()))["variants"]
    assert [each.title for each in table.columns] == ["Variant", "Allocator peak", "Largest parts"]
    assert "scratch memory of aten::convolution" in shown(sample.alone())
    assert "tf32: TF32 " in shown(sample.realistic())


def test_bars_are_as_long_as_what_is_needed_with_its_bounds_and_the_limit() -> None:
    chart = blocks(build_document(sample.realistic()))["needed"]
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


def test_equal_memory_outside_the_allocator_is_one_row_of_all_its_variants() -> None:
    plan = sample.realistic()
    baseline, amp, *others = plan.variants
    context, workspace = amp.outside_allocator
    larger = replace(workspace, bytes=replace(workspace.bytes, value=64 * sample.MIB, high=64 * sample.MIB))
    table = blocks(
        build_document(replace(plan, variants=(baseline, replace(amp, outside_allocator=(context, larger)), *others)))
    )["beyond"]
    assert column(table, "Expected") == ["420 MiB", "32.0 MiB", "64.0 MiB"]
    assert column(table, "Variant") == ["all", "baseline, ckpt", "amp"]


def test_the_answer_has_memory_and_time_side_by_side_and_everything_else_is_folded() -> None:
    document = build_document(sample.realistic())
    assert [block.id for block in document.summary][:2] == ["picture", "variants"]
    assert [block.id for block in document.summary[0].blocks] == ["needed", "time-split"]  # type: ignore[attr-defined]
    assert {section.id for section in document.sections if not section.folded} == set()


def test_a_limit_far_beyond_the_bars_is_told_in_words() -> None:
    chart = blocks(build_document(sample.ranks()))["needed"]
    assert isinstance(chart, Chart)
    assert not chart.figure["layout"]["shapes"]
    assert list_figures(chart.caption) == ["80.0 GiB"]


def test_the_course_of_a_step_that_was_never_run_has_no_seconds() -> None:
    chart = blocks(build_document(sample.alone()))["memory-timeline-0"]
    assert isinstance(chart, Chart)
    assert list_figures(chart.figure["layout"]["xaxis"]["title"]["text"])[:1] == ["1"]
    assert chart.figure["layout"]["annotations"][0]["text"] == "peak 412 MiB<br>backward"
    assert chart.figure["layout"]["xaxis"]["range"][1] == pytest.approx(3000)
    assert "memory_timeline" not in {data.name for data in build_document(sample.alone()).data}


def test_more_ranks_are_held_against_the_fewest() -> None:
    found = blocks(build_document(sample.ranks()))
    table = found["scaling-table"]
    assert column(table, "Variant") == ["baseline", "baseline@2", "baseline@8", "zero3", "zero3@2", "zero3@8"]
    # 0.2 s on one rank, 0.22 s on two and 0.34 s on eight; 0.23 s and 0.41 s with zero3.
    assert column(table, "Scaling efficiency") == ["100.0 %", "90.9 %", "58.8 %", "100.0 %", "87.0 %", "48.8 %"]
    assert set(column(table, "Largest part")) == {"GEMM"}
    chart = found["scaling-memory"]
    assert isinstance(chart, Chart)
    go.Figure(chart.figure)
    _, zero3 = chart.figure["data"]
    assert zero3["x"] == [1, 2, 8]
    assert zero3["y"] == pytest.approx([1152 / 1024, 952 / 1024, 802 / 1024])  # 300 + 400 / N + 452 MiB
    assert "scaling-table" not in blocks(build_document(sample.realistic()))


def test_steps_and_ops_lie_under_the_ceilings_by_predicted_time() -> None:
    found = blocks(build_document(sample.realistic()))
    chart = found["roofline"]
    assert isinstance(chart, Chart)
    go.Figure(chart.figure)
    dots = {trace["name"]: trace for trace in chart.figure["data"] if trace["mode"].startswith("markers")}
    assert dots["amp: step"]["x"] == [pytest.approx(40 / 0.9)]
    assert dots["amp: step"]["y"] == [pytest.approx(40e9 / 0.14)]
    # The baseline and the fastest are on at first, and arrows lead to both of the others.
    assert {name for name, trace in dots.items() if trace["visible"] and name.endswith("step")} == {
        "baseline: step",
        "amp: step",
    }
    arrows = [note for note in chart.figure["layout"]["annotations"] if note["showarrow"]]
    assert [json.loads(arrow["name"])["series"] for arrow in arrows] == ["amp", "ckpt"]
    roofs = [trace for trace in chart.figure["data"] if trace["mode"] == "lines"]
    assert any("1,008 GB/s" in roof["hovertext"] for roof in roofs)
    steps = found["roofline-steps"]
    assert column(steps, "Variant") == ["baseline", "amp", "ckpt"]
    assert column(steps, "FLOP/s") == ["182 GFLOP/s", "286 GFLOP/s", "138 GFLOP/s"]
    assert column(steps, "Roofline time") == ["55.0 ms", "35.0 ms", "72.5 ms"]
    assert column(steps, "% of roofline") == ["25 %", "25 %", "25 %"]


@pytest.mark.parametrize(("ckpt_fits", "shown_first"), [(True, "ckpt"), (None, "amp"), (False, "amp")])
def test_the_fastest_that_fits_is_shown_at_first(ckpt_fits: bool | None, shown_first: str) -> None:
    plan = sample.realistic()
    fits = {"amp": False, "ckpt": ckpt_fits}
    variants = tuple(replace(variant, fits=fits.get(variant.name, variant.fits)) for variant in plan.variants)
    chart = blocks(build_document(replace(plan, limit_bytes=sample.MIB, variants=variants)))["roofline"]
    assert isinstance(chart, Chart)
    steps = [trace for trace in chart.figure["data"] if trace.get("name", "").endswith(": step")]
    assert {trace["name"] for trace in steps if trace["visible"]} == {"baseline: step", f"{shown_first}: step"}


def test_ops_of_each_variant_are_a_table_and_raw_rows() -> None:
    found = blocks(build_document(sample.realistic()))["roofline-ops-1"]
    assert [row.name for row in found.rows] == ["aten::mm", "aten::add"]
    assert column(found, "FLOPs") == ["39.9 GFLOP", "100 MFLOP"]
    tables = {data.name: data for data in build_document(sample.realistic()).data}
    rows = [row for row in tables["ops"].rows() if row["variant"] == "amp"]
    assert [(row["kind"], row["name"]) for row in rows] == [("step", "step"), ("op", "aten::mm"), ("op", "aten::add")]


def test_ranks_with_other_threads_lie_under_ceilings_of_their_own() -> None:
    plan = sample.realistic()
    baseline, amp, *_ = plan.variants
    assert baseline.step_s is not None
    assert amp.step_s is not None
    levels = ((CeilingLevel.MEMORY, None, 2e10), (CeilingLevel.MATRIX, "fp32", 1e11))
    ceilings = tuple(
        Ceiling(level=level, dtype=dtype, value=value * n, unit="", kind=CeilingKind.MEASURED, source="", threads=n)
        for level, dtype, value in levels
        for n in (1, 2)
    )
    cpu = DeviceCeilings(device="cpu", device_name="a CPU", fingerprint="", ceilings=ceilings)
    variants = (
        replace(baseline, step_s=replace(baseline.step_s, threads=2)),
        replace(amp, name="amp@2", step_s=replace(amp.step_s, threads=1)),
    )
    chart = blocks(build_document(replace(plan, device="cpu", device_name="", ceilings=cpu, variants=variants)))[
        "roofline"
    ]
    assert isinstance(chart, Chart)
    names = [note["text"] for note in chart.figure["layout"]["annotations"] if not note["showarrow"]]
    assert any("a CPU, 2 threads: memory 40" in name for name in names)
    assert any("a CPU, 1 thread: memory 20" in name for name in names)


def test_without_the_time_of_a_step_the_reason_stands_in_place_of_the_roofline() -> None:
    plan = sample.alone()
    reason = "the ceilings of this CPU with 2 threads are not known: measure them with perfkit calibrate"
    untimed = replace(plan, variants=tuple(replace(each, step_reason=reason) for each in plan.variants))
    found = blocks(build_document(untimed))
    assert "roofline" not in found
    assert f": {reason}." in str(found["no-roofline"])
    assert "no-roofline" in blocks(build_document(plan))
    assert reason in " ".join(shown(untimed).split())
