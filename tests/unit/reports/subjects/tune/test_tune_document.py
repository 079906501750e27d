"""What the report on a search says first, and that its tables hold every trial."""

import pytest

from perfkit.tune.model.tune_result import TunedScript, TuneResult
from perfkit_reports.document.blocks import Chart, Table
from perfkit_reports.document.document import Document
from perfkit_reports.subjects.registry import build_document
from tests.fixtures import sample_tune
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import changed


def find_table(document: Document, name: str) -> Table:
    return next(block for block in document.blocks if isinstance(block, Table) and block.id == name)


def test_the_headline_names_the_variant_and_its_proven_gain() -> None:
    document = build_document(sample_tune.proven())
    assert "amp+optim:use=fused" in document.headline
    assert list_figures(document.headline) == ["1.75×", "1.72", "1.79×"]
    assert [tile.cell.text for tile in document.tiles] == ["1.75×", "104 ms", "330 MiB", "6"]


@pytest.mark.parametrize(
    ("result", "named"),
    [
        (sample_tune.not_proven(), "amp+optim:use=fused"),
        (sample_tune.no_gain(), "baseline"),
        (sample_tune.interrupted(), "amp"),
    ],
)
def test_what_is_not_proven_is_no_advice(result: TuneResult, named: str) -> None:
    headline = build_document(result).headline
    assert named in headline
    assert not headline.startswith("Use")


def test_every_trial_is_a_row_with_its_outcome() -> None:
    document = build_document(sample_tune.proven())
    trials = find_table(document, "trials-table")
    outcome = next(column for column in trials.columns if column.title == "Outcome")
    assert [(row.variant, outcome.cell(row).id) for row in trials.rows] == [
        ("amp", "accepted"), ("optim:use=fused", "improves"), ("ckpt", "slower"), ("compile", "failed"),
        ("amp+optim:use=fused", "accepted"), ("amp+inplace", "undecided"),
    ]  # fmt: skip
    assert [row.label for row in find_table(document, "best").rows] == ["amp", "optim:use=fused"]


def test_the_chart_joins_the_baseline_and_what_was_accepted() -> None:
    chart = next(block for block in build_document(sample_tune.proven()).blocks if isinstance(block, Chart))
    path, *dots = chart.figure["data"]
    assert path["x"] == pytest.approx([412, 330, 330])
    assert path["y"] == pytest.approx([182, 182 * 0.617, 182 * 0.566])
    assert len(dots) == 6  # the failed trial has no figures


def test_a_search_that_is_not_proven_says_how_to_decide() -> None:
    rows = find_table(build_document(sample_tune.not_proven()), "next").rows
    assert any("--precision" in row.command for row in rows)


def test_every_stage_names_the_finding_that_led_it() -> None:
    stages = find_table(build_document(sample_tune.proven()), "stages-table")
    cell = next(column for column in stages.columns if column.title == "Leading finding").cell
    assert [cell(row).id for row in stages.rows] == ["gemm.fp32", "optimizer.unfused"]


def test_a_patch_is_written_and_taken_back_by_a_command() -> None:
    rows = find_table(build_document(sample_tune.proven()), "next").rows
    assert [row.command.split()[:2] for row in rows[:2]] == [["patch", "/home/me/train.py"], ["patch", "-R"]]


def test_a_search_in_a_script_is_repeated_with_what_was_asked_of_it() -> None:
    result = changed(
        sample_tune.proven(), script=TunedScript(path="train.py", arguments=("--lr", "1")), objective="memory",
        allow="lossless", limit_bytes=1.5 * 2**30,
    )  # fmt: skip
    rows = find_table(build_document(result), "next").rows
    assert [row.command for row in rows][-1] == (
        "perfkit tune --objective memory --allow lossless --memory 1.5GiB train.py -- --lr 1"
    )


def test_what_costs_time_is_expected_to_cost_it() -> None:
    (trial, *_) = sample_tune.proven().trials
    result = changed(sample_tune.proven(), trials=(changed(trial, expected_low_s=-0.03, expected_high_s=-0.02),))
    table = find_table(build_document(result), "trials-table")
    column = next(column for column in table.columns if column.title == "Simulated saving")
    assert list_figures(column.cell(table.rows[0]).text) == ["-30.0 ms", "-20.0 ms"]
