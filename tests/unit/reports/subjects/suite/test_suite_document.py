"""What the report of a bench says, block by block, and that every format can show it."""

import io
import shlex

import msgspec
import pytest
from rich.console import Console

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis
from perfkit.core.record.quantity import Measurement
from perfkit.cost.formulas.attention_mask import UNMASKED
from perfkit.store.layout import SuiteSampling
from perfkit.store.suite_state import Conclusion
from perfkit.store.technique_ranking import RankedTechnique, TechniqueRanking
from perfkit_reports.document.blocks import Bars, Chart, Choice, Facts, Findings, Group, Table, Text
from perfkit_reports.document.pick import Pick
from perfkit_reports.document.raw import encode_json
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import html, markdown, notebook, terminal
from perfkit_reports.subjects.suite.sections import build_peaks
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures.document_blocks import blocks, column, titles
from tests.fixtures.figures import list_figures
from tests.fixtures.parsed_page import Page
from tests.fixtures.rank_traces import device, gemm
from tests.fixtures.sample_analysis import HOSTILE, TRACEBACK


def printed(analysis: Analysis, width: int = 100, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    terminal.render(build_document(analysis), Console(file=stream, width=width, color_system=None), verbose=verbose)
    return stream.getvalue()


def only(analysis: Analysis, *places: int) -> Analysis:
    return msgspec.structs.replace(analysis, variants=tuple(analysis.variants[place] for place in places))


def test_the_sections_in_order(realistic: Analysis, nothing_measured: Analysis) -> None:
    told = build_document(realistic).sections
    assert [section.id for section in told if not section.folded] == ["why", "findings", "traced"]
    assert [section.id for section in told if section.folded] == ["memory", "samples", "environment"]
    alone = [section.id for section in build_document(nothing_measured).sections if not section.folded]
    assert alone == ["findings"]


def test_products_by_size_are_a_tab_of_the_operations(realistic: Analysis) -> None:
    first = realistic.variants[0]
    assert first.traced_step is not None
    traced = msgspec.structs.replace(first.traced_step, gemms=(gemm(0.4),))
    variants = (msgspec.structs.replace(first, trace=traced), *realistic.variants[1:])
    document = build_document(msgspec.structs.replace(realistic, variants=variants))
    (section,) = (section for section in document.sections if section.id == "traced")
    assert [block.id for block in section.blocks] == ["picker", "traced-roofline", "traced-savings"]
    choice = blocks(document)["costs"]
    assert isinstance(choice, Choice)
    assert {tab for tab, _ in choice.options} == {"All", "GEMM"}


def test_many_variants_share_the_room_for_rows(realistic: Analysis) -> None:
    limits = []
    for some in (realistic, only(realistic, 0, 1)):
        table = blocks(build_document(some))["ops-0"]
        assert isinstance(table, Table)
        limits.append(table.limit)
    assert limits == [16, 50]


def test_the_first_screen_has_the_table_beside_the_trade_off(realistic: Analysis) -> None:
    first = build_document(realistic).summary[0]
    assert isinstance(first, Group)
    assert (first.beside, [block.id for block in first.blocks]) == (True, ["variants", "pareto"])
    assert [block.id for block in build_document(only(realistic, 1)).summary][:1] == ["variants"]


def test_the_picker_offers_every_traced_variant(realistic: Analysis) -> None:
    picker = blocks(build_document(realistic))["picker"]
    assert isinstance(picker, Pick)
    assert picker.values == ("baseline", "amp", "ckpt", "flash", "compile", "amp+ckpt")
    assert "picker" not in blocks(build_document(only(realistic, 0)))


def test_intervals_are_drawn_on_one_axis(realistic: Analysis) -> None:
    table = blocks(build_document(realistic))["variants"]
    assert isinstance(table, Table)
    (speed,) = (shown for shown in table.columns if shown.title == "Speed-up")
    spans = {row.name: speed.cell(row).span for row in table.rows}
    assert [name for name, span in spans.items() if span is None] == [
        "baseline", "zero2@2", "offload:what=activations:to=disk",
    ]  # fmt: skip
    drawn = [span for span in spans.values() if span is not None]
    assert len({span.zero for span in drawn}) == 1
    assert (min(span.low for span in drawn), max(span.high for span in drawn)) == (0.0, 1.0)
    amp = spans["amp"]
    assert amp is not None
    assert amp.zero < amp.low < amp.at < amp.high


def test_a_variant_without_a_trace_has_a_bar_of_its_timed_step(realistic: Analysis) -> None:
    amp = msgspec.structs.replace(realistic.variants[1], trace=None)
    bars = blocks(build_document(msgspec.structs.replace(realistic, variants=(realistic.variants[0], amp))))[
        "time-split"
    ]
    assert isinstance(bars, Bars)
    assert isinstance(amp.step_time, MedianEstimate)
    assert [[share.seconds for share in bar.shares] for bar in bars.bars][1:] == [[amp.step_time.value]]
    assert [list_figures(bar.name) for bar in bars.bars][1:] == [["124 ms"]]


@pytest.mark.parametrize(
    ("conclusion", "verdict", "folder", "parts"),
    [
        ("interrupted", "faster", "runs/one two", ["--resume", "runs/one two"]),
        ("undecided", "inconclusive", "runs/a", ["--into", "runs/a", "--technique", "amp", "--budget", "13min"]),
        ("", "faster", "runs/a", []),
    ],
)
def test_what_to_run_without_an_answer(
    realistic: Analysis, conclusion: Conclusion, verdict: str, folder: str, parts: list[str]
) -> None:
    amp = realistic.variants[1]
    amp = msgspec.structs.replace(amp, difference=msgspec.structs.replace(amp.difference, verdict=verdict))
    whole = msgspec.structs.replace(
        realistic,
        folder=folder,
        conclusion=Conclusion(conclusion),
        variants=(realistic.variants[0], amp),
        sampling=SuiteSampling(precision=0.05, rounds=3, seconds=380.0),
    )
    told = blocks(build_document(whole)).get("command")
    words = shlex.split(told.lines[0]) if isinstance(told, Text) else []
    assert words[2:] == parts


def test_a_row_is_a_variant_and_those_without_figures_have_dashes_and_a_reason(realistic: Analysis) -> None:
    found = blocks(build_document(realistic))
    table = found["variants"]
    assert column(table, "Variant") == [variant.name for variant in realistic.variants]
    assert column(table, "Speed-up")[:3] == ["baseline", "▲ 1.62×", "▼ 0.80×"]
    assert column(table, "Peak memory")[-2:] == ["–", "–"]
    assert isinstance(table, Table)
    assert [table.columns[0].cell(row).detail for row in table.rows[-2:]] == ["skipped", "out of memory"]
    told = found["not-measured"]
    assert isinstance(told, Text)
    assert list_figures(told.lines[0])[:1] == ["2"]
    assert {"64.0 MiB"} <= {*list_figures(told.lines[1])}
    assert (table.weight, told.weight) == (Weight.BRIEF, Weight.BRIEF)


def test_columns_compare_only_where_there_is_something_to_compare_with(realistic: Analysis) -> None:
    assert titles(blocks(build_document(realistic))["variants"]) == [
        "Variant", "Step time", "Speed-up", "Peak memory", "Loss", "Applied",
    ]  # fmt: skip
    assert titles(blocks(build_document(only(realistic, 0)))["variants"]) == [
        "Variant", "Step time", "tokens/s", "Peak memory", "MFU",
    ]  # fmt: skip


def test_a_row_unfolds_to_what_lies_behind_it(every_status: Analysis) -> None:
    found = blocks(build_document(every_status))
    failed = next(place for place, variant in enumerate(every_status.variants) if variant.name == HOSTILE)
    traceback = found[f"variant-{failed}-traceback"]
    assert isinstance(traceback, Text)
    assert (traceback.lines, traceback.style) == ((TRACEBACK,), "code")
    assert column(found["variant-1-claims"], "Result") == ["✓ pass"]
    idle = next(place for place, variant in enumerate(every_status.variants) if variant.active is False)
    assert column(found[f"variant-{idle}-claims"], "Result") == ["✗ fail"]
    figures, compiled = found["variant-1-figures"], found["variant-4-compile"]
    assert isinstance(figures, Facts)
    assert isinstance(compiled, Facts)
    facts = dict(figures.items)
    assert facts["Throughput"].text == "16,508 tokens/s"
    assert (facts["Verdict"].text, list_figures(facts["Verdict"].detail)[:1]) == ("faster", ["3"])
    assert facts["MFU"].text == "53.5 %"
    assert facts["Executed FLOPs"].text == "26.7 GFLOP"
    assert facts["Loss tolerance"].detail == "bf16 rounding, 10 steps"
    cost = {name: (cell.text, cell.detail) for name, cell in compiled.items}
    assert cost["First process"][0] == "14.2 s"
    assert "cold" in cost["First process"][1]
    assert [list_figures(line) for line in cost["Warm caches"]] == [["2.10 s"], ["2"]]
    (warm,) = (text for title, (text, _) in cost.items() if title.startswith("Break-even") and "warm" in title)
    assert "67" in list_figures(warm)
    assert list_figures(dict(compiled.items)["Graph breaks"].detail) == ["41"]
    caveats = found["variant-4-caveats"]
    assert isinstance(caveats, Text)
    assert [list_figures(line) for line in caveats.lines] == [["30"]]


def test_operations_can_be_chosen_by_variant_the_baseline_first(realistic: Analysis) -> None:
    found = blocks(build_document(realistic))
    choice = found["costs"]
    assert isinstance(choice, Choice)
    names = ["baseline", "amp", "ckpt", "flash", "compile", "amp+ckpt"]
    assert [name for tab, name in choice.options if tab == "All"] == names
    assert choice.options["All", "baseline"].sorted == "Potential savings"  # type: ignore[attr-defined]


def test_variants_whose_trace_has_several_devices_have_a_table_of_them(realistic: Analysis) -> None:
    first, *others = realistic.variants
    assert first.trace is not None
    rows = (device(0, 0.25), device(3, 0.5, critical=True))
    traced = msgspec.structs.replace(first, trace=msgspec.structs.replace(first.trace, devices=rows, step_s=1.0))
    document = build_document(msgspec.structs.replace(realistic, variants=(traced, *others)))
    (section,) = [each for each in document.sections if each.id == "devices"]
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert [table.columns[0].cell(row).value for row in table.rows] == [0, 3]


def test_what_was_not_traced_or_recorded_says_so(realistic: Analysis, nothing_measured: Analysis) -> None:
    first = realistic.variants[0]
    for name, variant in (
        ("no-time", msgspec.structs.replace(first, trace=None)),
        ("no-memory", msgspec.structs.replace(first, memory=None)),
    ):
        told = blocks(build_document(msgspec.structs.replace(realistic, variants=(variant,))))[name]
        assert isinstance(told, Text)
        assert len(told.lines) == 1
    ceilings = blocks(build_document(nothing_measured))["ceilings"]
    assert isinstance(ceilings, Text)
    assert "perfkit calibrate" in ceilings.lines[0]


def test_a_roofline_without_roofs_says_how_to_get_them(realistic: Analysis) -> None:
    found = blocks(build_document(msgspec.structs.replace(realistic, ceilings=None)))
    missing, told = found["no-roofline"], found["roofline-told"]
    assert isinstance(missing, Text)
    assert isinstance(told, Text)
    assert "perfkit calibrate" in missing.lines[0]
    assert "roofs are unknown" in told.lines[0]
    assert isinstance(found["roofline"], Chart)  # rates and intensities are known all the same
    assert "no-roofline" not in blocks(build_document(realistic))


def test_a_notebook_and_a_terminal_have_the_brief_blocks(realistic: Analysis) -> None:
    brief = {name for name, block in blocks(build_document(realistic)).items() if block.weight == Weight.BRIEF}
    drawn = {"pareto", "roofline", "time-split", "memory-peak"}
    groups = {"first", "why-bars", "why-time", "why-memory", "traced-roofline"}
    assert brief == {"variants", "not-measured", "found"} | drawn | groups


def test_the_peaks_of_the_mfu_are_named_with_their_variants(realistic: Analysis) -> None:
    (text,) = build_peaks(realistic)
    (line,) = text.lines
    assert list_figures(line) == ["210 GFLOP/s", "402 GFLOP/s"]
    assert line.index("baseline") < line.index("402 GFLOP/s") < line.index("amp+ckpt")
    same = [variant for variant in realistic.variants if variant.name in ("baseline", "ckpt")]
    (alone,) = build_peaks(msgspec.structs.replace(realistic, variants=tuple(same)))
    assert list_figures(alone.lines[0]) == ["210 GFLOP/s"]
    assert "baseline" not in alone.lines[0]


def test_findings_say_whose_they_are_where_that_is_not_clear(realistic: Analysis) -> None:
    found = blocks(build_document(realistic))["found"]
    alone = blocks(build_document(only(realistic, 0)))["found"]
    assert isinstance(found, Findings)
    assert isinstance(alone, Findings)
    assert (found.owner, alone.owner) == ("Variant", "")


def test_bars_of_time_sum_to_the_step(realistic: Analysis) -> None:
    bars = blocks(build_document(realistic))["time-split"]
    assert isinstance(bars, Bars)
    assert [sum(share.share for share in bar.shares) for bar in bars.bars] == pytest.approx([1.0] * 6)


def test_the_analysis_itself_is_kept(every_status: Analysis) -> None:
    told = build_document(every_status)
    assert told.saves == "report.json"
    assert msgspec.json.decode(encode_json(told.raw["report.json"]), type=Analysis) == every_status
    page = Page(html.render(told))
    assert msgspec.json.decode(page.unfold("saved"), type=Analysis) == every_status


def test_hostile_text_forms_no_markup_in_any_format(every_status: Analysis) -> None:
    page = Page(html.render(build_document(every_status)))
    assert page.intruders() == []
    assert page.loaded() == []
    assert HOSTILE in page.text
    text = markdown.render(build_document(every_status)).replace(TRACEBACK.rstrip(), "")
    assert "<img" not in text
    assert "</script>" not in text
    assert HOSTILE in printed(every_status, 300).replace("\n", "")


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_terminal_has_room_for_it(analysis: Analysis, width: int) -> None:
    for verbose in (False, True):
        text = printed(analysis, width, verbose=verbose)
        assert max(len(line.rstrip()) for line in text.splitlines() if "File " not in line) <= width


def test_numbers_are_whole_on_a_narrow_terminal(realistic: Analysis) -> None:
    (amp,) = (line for line in printed(realistic, 100).splitlines() if line.startswith(" amp "))
    assert amp.split()[:7] == ["amp", "124", "ms", "(122–126", "ms)", "▲", "1.62×"]


def test_a_notebook_shows_the_main_figures_and_every_variant(realistic: Analysis) -> None:
    pytest.importorskip("matplotlib")
    page = Page(notebook.render(build_document(realistic)))
    assert sum(tag == "img" for tag, _ in page.tags) == 4
    assert all(variant.name in page.text for variant in realistic.variants)


def test_charts_are_named_alike_in_every_format(realistic: Analysis) -> None:
    drawn = {name for name, block in blocks(build_document(realistic)).items() if isinstance(block, Chart)}
    assert {"pareto", "roofline", "step-times", "warm-up", "losses", "memory-peak"} <= drawn


def test_a_step_without_an_interval_has_no_error_bar(realistic: Analysis) -> None:
    first = msgspec.structs.replace(
        realistic.variants[0], step_time=MedianEstimate(value=0.2, unit="s", per_process=(0.2,))
    )
    chart = blocks(build_document(msgspec.structs.replace(realistic, variants=(first, realistic.variants[1]))))[
        "pareto"
    ]
    assert isinstance(chart, Chart)
    bars = [trace["error_y"] for trace in chart.figure["data"] if "error_y" in trace]
    assert bars[0] == {"visible": False}
    assert bars[1]["array"][0] == pytest.approx(16508 / 0.985 - 16508, rel=1e-3)


def test_masked_pairs_are_named_where_they_count(realistic: Analysis) -> None:
    first = realistic.variants[0]
    assert isinstance(first.hfu, Measurement)
    causal = msgspec.structs.replace(first, hfu=msgspec.structs.replace(first.hfu, source=f"one step; {UNMASKED}"))
    for variant, told in ((causal, True), (first, False)):
        table = blocks(build_document(msgspec.structs.replace(realistic, variants=(variant,))))["variants"]
        assert isinstance(table, Table)
        assert ("masked pairs" in table.caption) == told


def test_at_most_three_techniques_to_try_with_their_commands(realistic: Analysis) -> None:
    assert "next" not in blocks(build_document(realistic))
    ranked = tuple(
        RankedTechnique(technique=name, variant=f"amp+{name}", names=(name,), saving_s=0.02, low_s=low_s, high_s=0.031)
        for name, low_s in (("tf32", 0.012), ("fused_ce", 0.0), ("optim:use=fused", 0.01), ("lora", 0.0))
    )
    untested = TechniqueRanking(of="amp", step_s=0.1229, techniques=ranked)
    document = build_document(msgspec.structs.replace(realistic, folder="runs/my gpt", untested=untested))
    (section,) = (section for section in document.sections if section.id == "untested")
    assert list_figures(" ".join(section.intro)) == ["123 ms"]
    table = blocks(document)["next"]
    assert column(table, "Technique") == ["tf32", "fused_ce", "optim:use=fused"]
    assert [list_figures(text) for text in column(table, "Simulated saving")][1] == ["31.0 ms"]
    assert column(table, "Simulated saving")[0] == "12.0–31.0 ms"
    words = shlex.split(column(table, "Command")[2])
    assert words[2:] == ["--into", "runs/my gpt", "--technique", "amp+optim:use=fused"]
