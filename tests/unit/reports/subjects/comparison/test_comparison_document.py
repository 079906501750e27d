"""The sections of a comparison, and what is drawn in them."""

from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from perfkit.analysis.model.comparison import ComparedAmount, ComparedFigure, Comparison, LivePoint
from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit_reports.document.blocks import Block, Chart, Flame, Table, walk_blocks
from perfkit_reports.document.document import Document
from perfkit_reports.render.terminal import render
from perfkit_reports.subjects.comparison.comparison_document import build_document
from perfkit_reports.subjects.comparison.figures import make_amount_cell
from tests.fixtures import sample_accounts
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.suites import record, write_suite


@pytest.fixture
def traces(tmp_path: Path) -> Comparison:
    return compare_runs([training_file(tmp_path / "before.json"), training_file(tmp_path / "after.json", slower=1.5)])


def blocks(told: Document) -> dict[str, Block]:
    return {block.id: block for block in walk_blocks(told.blocks)}


def test_traces_have_what_changed_and_everything_of_both_beside_each_other(traces: Comparison) -> None:
    told = build_document(traces)
    assert [section.id for section in told.sections] == ["changed", "time", "flame", "roofline", "where"]
    found = blocks(told)
    flame, roofline = found["flame"], found["roofline"]
    assert isinstance(flame, Flame)
    trees = {keys[1]: tree for keys, tree in flame.trees.items()}
    assert bool(trees["after.json"].before) is True
    assert bool(trees["before.json"].before) is False, "the first is compared with nothing"
    assert isinstance(roofline, Chart)
    assert {layer.label for layer in roofline.layers if layer.group == "Runs"} == {"before.json", "after.json"}
    assert told.chosen(), "a click leads to a drawer"


def test_memory_is_compared_by_category(traces: Comparison) -> None:
    one = sample_accounts.every_category()
    first = one.categories[0]
    more = replace(
        one,
        peak_bytes=one.peak_bytes + 2**20,
        categories=(replace(first, bytes=first.bytes + 2**20), *one.categories[1:]),
    )
    sides = [replace(side, memory=held) for side, held in zip(traces.sides, (one, more), strict=True)]
    table = blocks(build_document(replace(traces, sides=tuple(sides))))["memory-compared"]
    assert isinstance(table, Table)
    assert table.rows[0].category == first.category, "the largest change comes first"
    assert [column.cell(table.rows[0]).detail for column in table.columns] == ["", "", "+1.00 MiB"]
    assert table.columns[2].cell(table.rows[-1]).detail == "+1.00 MiB"


def test_steps_losses_and_loops_over_their_whole_training(tmp_path: Path) -> None:
    runs = [write_suite(tmp_path / name, {"baseline": [record(0.1)]}) for name in ("a", "b")]
    comparison = compare_runs(runs)
    assert {"step-times", "losses"} <= set(blocks(build_document(comparison)))
    assert "watched" not in blocks(build_document(comparison))
    live = (LivePoint(last_step=10, step_s=0.1), LivePoint(last_step=20, step_s=0.12))
    watched = replace(comparison, sides=(replace(comparison.sides[0], live=live), comparison.sides[1]))
    chart = blocks(build_document(watched))["watched"]
    assert isinstance(chart, Chart)
    assert (chart.figure["data"][0]["x"], chart.figure["data"][0]["y"]) == ([10, 20], [100.0, 120.0])


def test_a_terminal_shows_the_figures_and_the_kinds_of_work(traces: Comparison) -> None:
    out = StringIO()
    render(build_document(traces), Console(file=out, width=100), verbose=True)
    assert "Side by side" in out.getvalue()
    assert "ind of work" in out.getvalue() or "work type" in out.getvalue()


@pytest.mark.parametrize(("peak", "change"), [("312 TFLOP/s (bf16)", ""), ("19.5 TFLOP/s (fp32)", "+50.0 %")])
def test_shares_name_their_wholes_and_are_compared_only_of_the_same(peak: str, change: str) -> None:
    amounts = (ComparedAmount(value=0.4, of="19.5 TFLOP/s (fp32)"), ComparedAmount(value=0.6, of=peak))
    figure = ComparedFigure(title="MFU", unit="1", better="more", amounts=amounts)
    assert make_amount_cell(figure, 0).text == "40.0 % of 19.5 TFLOP/s (fp32)"
    other = make_amount_cell(figure, 1)
    assert (other.text, other.detail) == (f"60.0 % of {peak}", change)


@pytest.mark.parametrize(("recomputed", "titles"), [(0.0, ["MFU"]), (0.1, ["MFU", "HFU"])])
def test_the_share_of_the_hardware_has_a_row_only_where_it_differs(
    traces: Comparison, recomputed: float, titles: list[str]
) -> None:
    shares = [
        ComparedFigure(
            title=title,
            unit="1",
            better="more",
            amounts=tuple(ComparedAmount(value=value + more, of="989 TFLOP/s (bf16)") for value in (0.31, 0.35)),
        )
        for title, more in (("MFU", 0.0), ("HFU", recomputed))
    ]
    table = blocks(build_document(replace(traces, figures=tuple(shares))))["figures"]
    assert isinstance(table, Table)
    assert [figure.title for figure in table.rows] == titles


def test_pictures_of_all_work_are_folded(traces: Comparison) -> None:
    folded = {section.id for section in build_document(traces).sections if section.folded}
    assert folded == {"flame", "roofline", "where"}
