"""What the report on traces says, block by block, and that every format can show it."""

import io
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from perfkit.analysis.model.difference import ChangeRow
from perfkit.analysis.model.replay import FindingGains
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.document.blocks import Bars, Chart, Choice, Findings, Table, Text
from perfkit_reports.document.raw import encode_json
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import html, markdown, terminal
from perfkit_reports.render.html import build_selection_sheet
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.findings import build_section
from perfkit_reports.subjects.trace import build_document, trace_changes
from perfkit_reports.subjects.trace.series import DETAILED, list_memory_holders
from tests.fixtures import sample_accounts
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.document_blocks import blocks, column
from tests.fixtures.figures import list_figures
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import HOSTILE

MIB = 2**20


def lines(analysis: TraceAnalysis, name: str) -> str:
    block = blocks(build_document(analysis))[name]
    assert isinstance(block, Text)
    return " ".join(block.lines)


def sections(analysis: TraceAnalysis) -> list[str]:
    return [section.id for section in build_document(analysis).sections]


def shown(analysis: TraceAnalysis, width: int = 100, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    terminal.render(build_document(analysis), Console(file=stream, width=width, no_color=True), verbose=verbose)
    return stream.getvalue()


def test_every_format_shows_it_and_no_text_forms_markup(traces: TraceAnalysis) -> None:
    text = html.render(build_document(traces))
    page = Page(text)
    assert len(text.encode()) < 1_800_000
    assert page.loaded() == []
    assert page.intruders() == []
    written = markdown.render(build_document(traces))
    assert "<img" not in written
    assert "</script>" not in written
    for verbose in (False, True):
        assert max(len(line) for line in shown(traces, verbose=verbose).splitlines()) <= 100


def test_hostile_text_is_there_as_text() -> None:
    assert HOSTILE in Page(html.render(build_document(sample.hostile()))).text
    assert HOSTILE in " ".join(shown(sample.hostile(), width=400).split())


@pytest.mark.parametrize(("together_s", "explained"), [(0.0303, True), (0.045, False)])
def test_fixes_that_add_nothing_to_one_of_them_say_what_limits_all(together_s: float, explained: bool) -> None:
    gains = FindingGains(
        by_finding={"gemm.fp32": 0.03, "copy.pageable": 0.02},
        together_s=together_s,
        together_path={"host": 0.6, "GEMM": 0.2},
        step_s=0.1,
    )
    trace = msgspec.structs.replace(sample.alone().traces[0], gains=gains)
    (finding,) = [each for each in sample.realistic().findings if each.severity == "gain"][:1]
    titled = msgspec.structs.replace(
        finding, id="gemm.fp32", title="Products run slowly", variant=trace.label, simulated_s=0.03
    )
    pageable = msgspec.structs.replace(titled, id="copy.pageable", title="Copies are pageable", simulated_s=0.02)
    (together, *_) = build_section([titled, pageable], "", traces=[trace]).blocks
    assert isinstance(together, Text)
    (line,) = together.lines
    assert ("Products run slowly" in line, "75 %" in line) == (explained, explained)


@pytest.mark.parametrize(("listed", "several"), [(("gemm.fp32", "copy.pageable"), True), (("gemm.fp32",), False)])
def test_fixes_are_combined_where_several_are_findings(listed: tuple[str, ...], several: bool) -> None:
    gains = FindingGains(by_finding={"gemm.fp32": 0.03, "copy.pageable": 0.001}, together_s=0.031, step_s=0.1)
    trace = msgspec.structs.replace(sample.alone().traces[0], gains=gains)
    (found,) = [each for each in sample.realistic().findings if each.severity == "gain"][:1]
    items = [
        msgspec.structs.replace(found, id=key, variant=trace.label, simulated_s=gains.by_finding[key]) for key in listed
    ]
    (together, *_) = build_section(items, "", "", [trace]).blocks
    assert isinstance(together, Text) == several


def test_fixes_whose_gains_are_findings_of_another_trace_are_not_combined() -> None:
    gains = FindingGains(by_finding={"gemm.fp32": 0.03, "copy.pageable": 0.02}, together_s=0.045, step_s=0.1)
    trace = msgspec.structs.replace(sample.alone().traces[0], gains=gains)
    (found,) = [each for each in sample.realistic().findings if each.severity == "gain"][:1]
    items = [msgspec.structs.replace(found, id=key, variant="another", simulated_s=0.01) for key in gains.by_finding]
    assert [block.id for block in build_section(items, "", "", [trace]).blocks] == ["found"]


def test_sections_that_have_nothing_to_say_are_left_out() -> None:
    shown = ["changed", "ranks", "timeline", "savings", "roofline"]
    folded = ["findings", "time", "launches", "transfers", "coverage", "method"]
    made = build_document(sample.realistic()).sections
    assert [section.id for section in made if not section.folded] == shown
    assert [section.id for section in made if section.folded] == folded
    assert not {"changed", "ranks", "memory"} & set(sections(sample.alone()))


def test_gemms_attention_and_collectives_are_tabs_of_the_one_table() -> None:
    costs = blocks(build_document(sample.realistic()))["costs"]
    assert isinstance(costs, Choice)
    tabs = list(dict.fromkeys(tab for tab, _ in costs.options))
    assert tabs == ["All", "GEMM", "Attention", "Kernels", "Collectives", "Modules", "Phases"]
    labels = ["rank 0", "main rank 0", "rank 1"]
    assert list(costs.options) == [(tab, label) for tab in tabs for label in labels]


def test_the_document_tells_the_story() -> None:
    analysis = sample.realistic()
    told = build_document(analysis)
    assert {"-15 %", "41.2", "34.9 ms"} <= {*list_figures(told.headline)}
    assert "34.9 ms" in told.lead[0]
    found = blocks(told)["found"]
    assert isinstance(found, Findings)
    assert (found.items, found.owner) == (analysis.findings, "Trace")
    (intro,) = told.sections[0].intro
    assert list_figures(intro)[-1] == "-6.28 ms"
    assert "Straggler: rank 1" in lines(analysis, "fleet")
    assert {"120", "330"} <= {*list_figures(lines(analysis, "launched-0"))}
    assert all(note.text in lines(analysis, "notes") for note in analysis.traces[0].file_info.notes)
    assert column(blocks(told)["uncovered-0"], "Reason") == [
        row.reason for row in analysis.traces[0].coverage.uncovered
    ]
    assert list_figures(blocks(told)["wrong-0"].title) == ["1"]  # type: ignore[attr-defined]


def test_units_bear_the_names_that_the_vendor_of_the_device_gives_them() -> None:
    found = blocks(build_document(sample.alone()))
    facts = [
        dict(item.facts) for item in build_document(sample.alone()).chosen() if item.kind == "kernel" and item.part
    ]
    assert {"bf16 Tensor Core", "fp32 CUDA core"} <= {each["Unit"].text for each in facts}
    assert {"bf16 Tensor Core", "fp32 CUDA core", "memory"} <= set(column(found["ceilings"], "Ceiling"))


def test_a_terminal_has_what_bounds_the_step_and_what_could_be_saved() -> None:
    text = " ".join(shown(sample.realistic(), verbose=True).split())
    for part in (
        "MFU: 15.8 %",
        "[rank 0], up to 6.30 ms",
        "Straggler: rank 1",
        "4.29 ms",
        "-1.12 ms",
        "2 of 4 steps",
    ):
        assert part in text, part
    assert "Coverage" not in shown(sample.alone()).splitlines()
    assert "of 30.5 ms" in shown(sample.alone(), verbose=True) or "FLOPs and" in shown(sample.alone(), verbose=True)


def test_what_is_missing_is_explained() -> None:
    assert "record_shapes=True" in lines(sample.without_shapes(), "no-roofline")
    assert "Name the device with --device" in lines(sample.unknown_device(), "ceilings")
    assert "CPU" in lines(sample.cpu_only(), "launched-0")
    assert lines(sample.nothing(), "no-costs")
    assert "unknown" in lines(sample.unknown_device(), "roofline-told")
    assert "reaching the roofs" not in build_document(sample.unknown_device()).headline


def test_one_dot_alone_is_no_roofline() -> None:
    trace = sample.trace("rank 0", 0)
    alone = sample.alone(summary=trace.summary[:1], ops=(), kernels=(), level_points=())
    assert "roofline" not in blocks(build_document(alone))
    assert "one dot" in lines(alone, "no-roofline")
    assert isinstance(blocks(build_document(sample.alone()))["roofline"], Chart)


def test_tables_are_ranked_by_what_could_be_saved_and_cut() -> None:
    rows = sample.trace("rank 0", 0).kernels * 50
    kernels = blocks(build_document(sample.alone(kernels=rows)))["kernels-0"]
    assert isinstance(kernels, Table)
    assert (kernels.limit, kernels.sorted, kernels.data) == (80, "Potential savings", "kernels")
    text = Page(html.render(build_document(sample.alone(kernels=rows)))).text
    assert re.search(r"\b80 of 500 .*tables/kernels\.parquet", text)


def test_of_many_ranks_four_are_told_in_detail_and_three_have_bars() -> None:
    found = blocks(build_document(sample.many_ranks()))
    assert list_figures(lines(sample.many_ranks(), "costs-cut"))[:2] == ["4", "64"]
    split, costs = found["time-traces"], found["costs"]
    assert isinstance(split, Bars)
    assert isinstance(costs, Choice)
    assert [bar.name.split(":")[0] for bar in split.bars] == ["slowest", "median", "fastest"]
    assert len({trace for _, trace in costs.options}) == 4
    assert column(found["ranks"], "Rank")[0] == "rank 63"


def test_a_stream_whose_bar_says_what_the_step_says_is_not_drawn_again() -> None:
    trace = sample.trace("rank 0", 0)
    stream = msgspec.structs.replace(trace.streams[0], split=trace.time_split)
    once = sample.alone(streams=(stream,), steps=trace.steps[:1])
    assert "time-more" not in blocks(build_document(once))
    assert "time-more" in blocks(build_document(sample.alone()))


def test_columns_without_content_are_left_out() -> None:
    kernels = tuple(msgspec.structs.replace(row, module="") for row in sample.trace("rank 0", 0).kernels)
    text = html.render(build_document(sample.alone(kernels=kernels, ops=(), modules=(), phases=())))
    heads = text.split('data-block="kernels-0"')[1].split("</thead>")[0]
    assert ">Module<" not in heads
    assert ">Op<" in heads


def test_long_kernel_names_are_short_with_the_whole_on_hover() -> None:
    page = Page(html.render(build_document(sample.alone())))
    assert any("data-whole" in attributes for tag, attributes in page.tags if tag == "code")
    assert (
        sample.GELU in build_selection_sheet(build_document(sample.alone()).chosen())["texts"]
    )  # a browser test hovers over it
    assert sample.GELU not in page.text
    assert "GeluCUDAKernelImpl" in page.text


def test_names_and_shapes_of_any_length_do_not_fill_the_page() -> None:
    long = tuple(
        msgspec.structs.replace(row, name=row.name * 50, shapes="[4096, 4096] " * 999)
        for row in sample.trace("rank 0", 0).kernels * 50
    )
    tables = {"kernels": long, "ops": long, "gemms": (), "attentions": (), "timelines": ()}
    ranks = tuple(msgspec.structs.replace(trace, **tables) for trace in sample.many_ranks(4).traces)
    analysis = msgspec.structs.replace(sample.many_ranks(4), traces=ranks)
    size = len(html.render(build_document(analysis)).encode())  # by itself: a failing comparison would print the page
    assert size < 3_500_000


def test_memory_that_was_recorded_has_a_section() -> None:
    analysis = sample.alone(memory=sample_accounts.step(300 * MIB))
    assert "memory" in sections(analysis)
    assert "memory-balance" in blocks(build_document(analysis))
    failed = shown(sample.alone(memory=sample_accounts.out_of_memory()), verbose=True)
    assert "failed" in failed


def test_of_many_ranks_the_fullest_comes_first_whichever_it_is() -> None:
    many = sample.many_ranks(12)
    sizes = [(500 if place == 10 else 100 + place) * MIB for place in range(12)]
    traces = tuple(
        msgspec.structs.replace(trace, memory=sample_accounts.step(size))
        for trace, size in zip(many.traces, sizes, strict=True)
    )
    holders = list_memory_holders(msgspec.structs.replace(many, traces=traces))
    assert (holders[0].name, holders[0].account.peak_bytes) == (traces[10].label, 500 * MIB)
    assert len(holders) <= DETAILED + 1


def test_every_form_is_written_and_the_analysis_comes_back(traces: TraceAnalysis, tmp_path: Path) -> None:
    paths = write_document(build_document(traces), tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in paths}
    tables = ("kernels", "ops", "modules", "steps", "streams", "collectives", "copies", "ranks", "changes", "uncovered")
    files = {"report.html", "analysis.json", "summary.json", "report.md"}
    assert files | {f"tables/{name}.parquet" for name in tables} <= names
    assert not [name for name in names if name.startswith("figures/")]
    assert msgspec.json.decode((tmp_path / "analysis.json").read_bytes(), type=TraceAnalysis) == traces
    assert (tmp_path / "analysis.json").read_bytes() == encode_json(traces)


def test_static_figures_are_drawn_only_when_asked_for(tmp_path: Path) -> None:
    imread = pytest.importorskip("matplotlib.image").imread
    names = {
        str(path.relative_to(tmp_path))
        for path in write_document(build_document(sample.realistic()), tmp_path, figures=Weight.DETAIL)
    }
    assert {f"figures/{stem}.{kind}" for stem in ("roofline", "time-split") for kind in ("png", "svg")} <= names
    assert imread(io.BytesIO((tmp_path / "figures/roofline.png").read_bytes())).std() > 0.01  # not a blank sheet
    empty = write_document(build_document(sample.nothing()), tmp_path / "empty", figures=Weight.DETAIL)
    assert not [path for path in empty if path.parent.name == "figures"]


@pytest.mark.cold
@pytest.mark.slow
@pytest.mark.parametrize("module", ["subjects.trace", "render.html", "render.terminal", "render.report_files"])
def test_heavy_libraries_are_imported_only_where_they_are_used(module: str) -> None:
    heavy = ("matplotlib", "duckdb", "pandas", "torch", "plotly")
    code = f"import sys, perfkit_reports.{module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_compiled_code_in_a_comparison_is_told_with_what_it_replaced() -> None:
    change = ChangeRow(
        name="compiled code", module="", phase="forward", shapes="", before_calls=14, after_calls=2, before_s=0.0181,
        after_s=0.0123, before_flops=None, after_flops=None, before_bytes=None, after_bytes=None,
        compiled_names=("triton_poi_fused_add_gelu_3", "triton_per_fused_native_layer_norm_0"),
        replaced_ops=tuple(f"aten::op{place}" for place in range(6)),
    )  # fmt: skip
    cell = next(column.cell(change) for column in trace_changes.build_change_columns([change]) if column.title == "Op")
    assert (cell.text, cell.detail) == (
        "compiled code",
        "triton_poi_fused_add_gelu_3 and 1 more for 6 ops: aten::op0, aten::op1, aten::op2, aten::op3 and 2 more",
    )
    assert "aten::op5" in cell.whole
