"""How far plans were from what was measured, over all suites."""

from pathlib import Path

import pytest

from benchmarks.plan_score import ScoredVariant, format_summary, score_folder, summarize_scores
from perfkit.analysis.model.plan import Interval, Plan, PlannedPeak, PlannedVariant, StepTime
from perfkit.analysis.model.prediction import PredictedFigure, PredictedPart, Prediction
from perfkit.core.files import write_json
from perfkit.core.record.quantity import make_measurement
from perfkit.core.spec import WorkloadSpec
from perfkit.store.layout import SUITE_FILE
from perfkit.store.summary import PLAN_FILE
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import NO_MEMORY, changed, record, write_suite


def figure(predicted: float, found: float, spread: float = 0.0) -> PredictedFigure:
    bounds = Interval(value=predicted, low=predicted * (1 - spread), high=predicted * (1 + spread))
    return PredictedFigure(predicted=bounds, measured=found, error=predicted / found - 1)


def scored_variant(name: str, peak: float, step: PredictedFigure, suite: str = "a") -> ScoredVariant:
    """With a peak of 100 bytes that was predicted as `peak`, all of it of one category."""
    part = PredictedPart(name="activation", predicted=peak, measured=100, error=peak / 100 - 1)
    held = Prediction(
        planned_at="2026-01-01", planned_before_run=True, peak=figure(peak, 100), categories=(part,), step=step
    )
    return ScoredVariant(suite=suite, workload="gpt", device="cpu", variant=name, prediction=held)


def test_errors_are_without_their_signs_and_the_order_is_of_a_suite() -> None:
    found = summarize_scores(
        [
            scored_variant("baseline", 100, figure(1.0, 1.0, 0.1)),
            scored_variant("amp", 90, figure(0.9, 0.6, 0.1)),
            scored_variant("ckpt", 120, figure(1.2, 1.3, 0.1)),
            scored_variant("baseline", 101, figure(1.0, 1.1, 0.1), suite="b"),
        ]
    )
    assert found.peak is not None
    assert (found.peak.count, found.peak.worst) == (4, pytest.approx(0.2))
    assert found.peak.median == pytest.approx(0.055)  # of 0, 0.01, 0.1, 0.2
    assert found.peak.p90 == pytest.approx(0.17)  # 0.7 of the way from 0.1 to 0.2
    assert found.category == found.peak
    assert found.step is not None
    assert found.step.worst == pytest.approx(0.5)
    assert found.within == 0.75  # not amp's
    (order,) = found.orders  # one variant of the other suite has no order
    assert (order.suite, order.variants, order.correlation) == ("a", 3, pytest.approx(1.0))
    assert [list_figures(line) for line in list(format_summary(found))] == [
        ["5.5 %", "90 %", "17.0 %", "20.0 %", "4"],
        ["5.5 %", "90 %", "17.0 %", "20.0 %", "4"],
        ["8.4 %", "90 %", "37.7 %", "50.0 %", "4"],
        ["75 %"],
        ["1.00", "1", "1.00", "3"],
    ]


def test_steps_of_a_busy_machine_are_not_counted() -> None:
    quiet = scored_variant("baseline", 100, figure(1.0, 1.1))
    disturbed = changed(scored_variant("baseline", 100, figure(1.0, 9.0), suite="b"), disturbed="others took 2 cores")
    found = summarize_scores([quiet, disturbed])
    assert found.step is not None
    assert (found.step.count, found.step.worst) == (1, pytest.approx(0.1 / 1.1))
    assert found.peak is not None
    assert found.peak.count == 2
    assert list_figures(list(format_summary(found))[-1]) == ["2"]


def test_what_was_planned_after_its_run_predicts_no_time() -> None:
    before = scored_variant("baseline", 100, figure(1.0, 1.1))
    after = scored_variant("baseline", 90, figure(1.0, 1.0), suite="b")
    after = changed(after, prediction=changed(after.prediction, planned_before_run=False))
    found = summarize_scores([before, after])
    assert found.step is not None
    assert found.step.count == 1
    assert found.peak is not None
    assert found.peak.count == 2
    assert [each.suite for each in found.variants if each.not_counted] == ["b"]
    assert "times of b " in list(format_summary(found))[-1]


def test_plans_of_eager_steps_are_no_predictions_of_compiled_ones() -> None:
    eager = scored_variant("compile", 100, figure(3.0, 1.0))
    eager = changed(eager, prediction=changed(eager.prediction, planned_eagerly=True))
    found = summarize_scores([scored_variant("baseline", 100, figure(1.0, 1.0)), eager])
    assert found.step is not None
    assert (found.step.count, found.step.worst) == (1, 0.0)
    assert [each.variant for each in found.variants if each.not_counted] == ["compile"]
    assert " of compile in a " in list(format_summary(found))[-1]


def test_suites_with_a_plan_are_found_and_analysed(tmp_path: Path) -> None:
    memory = changed(NO_MEMORY, allocated=make_measurement(100.0, "bytes", "test"))
    for name in ("planned", "other"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        write_suite(tmp_path / "runs" / name, {"baseline": [record(0.1, memory=memory)]})
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / SUITE_FILE).write_text("{")
    planned = PlannedVariant(
        name="baseline",
        world_size=1,
        peak_allocated_bytes=PlannedPeak(value=98, low=98, high=98, phase="forward", categories={"parameter": 98}),
        step_s=StepTime(
            total=Interval(value=0.11, low=0.1, high=0.12), parts={"GEMM": 0.11}, dominant="GEMM", source="by hand"
        ),
    )
    plan = Plan(
        created_at="2026-01-01T00:00:00+00:00",
        perfkit="0.9",
        command="perfkit plan",
        workload=WorkloadSpec(name="gpt"),
        dtype="fp32",
        accumulation=1,
        variants=(planned,),
    )
    for name in ("planned", "broken"):
        write_json(tmp_path / "runs" / name / PLAN_FILE, plan)
    told: list[str] = []
    found = score_folder(tmp_path, told.append)
    (each,) = found.variants
    assert (each.suite, each.workload, each.device, each.variant) == ("runs/planned", "gpt", "Test CPU", "baseline")
    assert found.peak is not None
    assert found.peak.worst == pytest.approx(0.02)
    assert found.step is not None
    assert found.step.worst == pytest.approx(0.1)
    assert found.orders == ()
    assert told == [str(tmp_path / "runs" / "broken"), str(tmp_path / "runs" / "planned")]
    (unread,) = found.unread
    assert "truncated" in unread


def test_without_plans_it_says_how_to_keep_one(tmp_path: Path) -> None:
    (hint,) = format_summary(score_folder(tmp_path))
    assert "perfkit bench --plan" in hint
    assert "--into FOLDER" in hint
