from pathlib import Path

import pytest

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.suite.cost import add_costs
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.step_samples import StepSamples
from perfkit.store.price import Price
from perfkit_reports.document.blocks import Table
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import keep_price, record, write_suite

PRICE = Price(per_hour=3.6, currency="$")  # 0.001 a second


def suite(folder: Path) -> Path:
    """8 samples in 0.1 s and in 0.05 s, and a variant that did not get to its first step."""
    failed = record(status=RunStatus.FAILED, reason="ValueError", samples=StepSamples())
    runs = {"baseline": [record(0.1), record(0.11)], "amp": [record(0.05)], "ckpt": [failed]}
    return write_suite(folder, runs)


def test_a_thousand_samples_cost_what_the_machine_does_in_the_time_that_they_take(tmp_path: Path) -> None:
    baseline, amp, ckpt = add_costs(analyze_suite(suite(tmp_path)), PRICE).variants
    assert isinstance(baseline.cost, MedianEstimate)
    assert baseline.cost.per_process == (pytest.approx(0.0125), pytest.approx(0.01375))
    assert baseline.cost.unit == "$ per 1k samples"
    assert baseline.cost.low is not None
    assert isinstance(amp.cost, MedianEstimate)
    assert amp.cost.value == pytest.approx(0.001 * 1000 * 0.05 / 8)
    assert ckpt.cost == MissingEstimate(reason="failed: ValueError")


def test_a_price_that_was_told_is_kept_and_shown(tmp_path: Path) -> None:
    folder = suite(tmp_path)
    assert analyze_suite(folder).price is None
    keep_price(folder, PRICE)
    analysis = analyze_suite(folder)
    assert analysis.price == PRICE
    made = build_document(analysis)
    table = next(block for block in made.summary if isinstance(block, Table) and block.id == "variants")
    column = next(column for column in table.columns if column.title == "$/1k samples")
    assert [column.cell(variant).text for variant in analysis.variants] == ["$0.0131", "$0.00625", "–"]
    assert {"3.60"} <= {*list_figures(table.caption)}
    rows = next(data for data in made.data if data.name == "variants").rows()
    assert [row["cost_unit"] for row in rows] == ["$ per 1k samples"] * 2 + [None]
