"""What a bench's report says of the plan that is kept with it."""

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.suite import Analysis
from perfkit_reports.document.blocks import Bars
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures import sample_analysis
from tests.fixtures.document_blocks import blocks, column
from tests.fixtures.figures import list_figures


@pytest.fixture(scope="module")
def predicted() -> Analysis:
    return sample_analysis.predicted()


def test_each_figure_stands_beside_what_was_measured(predicted: Analysis) -> None:
    table = blocks(build_document(predicted))["predictions"]
    assert column(table, "Variant") == ["baseline", "amp", "ckpt", "flash"]
    assert column(table, "Peak error") == ["0.0 %", "+5.0 %", "+10.0 %", "n/a"]
    assert column(table, "Step error") == ["0.0 %", "+5.0 %", "+10.0 %", "n/a"]
    assert column(table, "Largest category error") == ["all equal", "activation", "activation", "n/a"]


def test_times_by_class_are_bars_of_one_scale(predicted: Analysis) -> None:
    bars = blocks(build_document(predicted))["predicted-time"]
    assert isinstance(bars, Bars)
    assert [bar.name for bar in bars.bars][:2] == ["baseline, predicted", "baseline, traced"]
    amp = {bar.name: sum(share.seconds for share in bar.shares) for bar in bars.bars}
    assert amp["amp, predicted"] == pytest.approx(1.05 * amp["amp, traced"])


def test_it_says_whether_the_plan_was_made_before(predicted: Analysis) -> None:
    (section,) = (section for section in build_document(predicted).sections if section.id == "predicted")
    assert [list_figures(line) for line in section.intro] == [["2026", "01", "31", "11", "00"]]
    first = predicted.variants[0]
    assert first.prediction is not None
    late = replace(first, prediction=replace(first.prediction, planned_before_run=False))
    (section,) = (
        section
        for section in build_document(replace(predicted, variants=(late, *predicted.variants[1:]))).sections
        if section.id == "predicted"
    )
    assert [list_figures(line) for line in section.intro] == [["2026", "01", "31", "11", "00"]]


def test_the_raw_rows_hold_the_bounds(predicted: Analysis) -> None:
    tables = {data.name: data for data in build_document(predicted).data}
    rows = [row for row in tables["predictions"].rows() if row["variant"] == "amp"]
    assert [row["figure"] for row in rows] == ["peak", "step"]
    assert rows[1]["low"] == pytest.approx(0.8 * rows[1]["predicted"])
    assert {row["variant"] for row in tables["predicted_memory"].rows()} == {"baseline", "amp", "ckpt"}


def test_without_a_plan_there_is_no_section(realistic: Analysis) -> None:
    assert "predicted" not in [section.id for section in build_document(realistic).sections]
    assert "predictions" not in {data.name for data in build_document(realistic).data}


def test_it_says_why_a_step_is_not_compared(predicted: Analysis) -> None:
    first = predicted.variants[0]
    assert first.prediction is not None
    reason = "planned with 4 threads a rank, measured with 2"
    other = replace(first, prediction=replace(first.prediction, step=None, parts=(), step_reason=reason))
    found = blocks(build_document(replace(predicted, variants=(other, *predicted.variants[1:]))))
    assert reason in str(found["not-predicted"])
