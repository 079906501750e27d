"""A plan in a suite's folder, held against what was measured."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, Plan, PlannedPeak, PlannedVariant, StepTime
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.allocations import InitialBlock, build_allocations
from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import WorkloadSpec
from perfkit.store.layout import RUN_FILE
from perfkit.store.memory_file import write_allocations
from perfkit.store.summary import PLAN_FILE
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, write_suite
from tests.fixtures.traces import mark, op, write_trace

WEIGHT = InitialBlock(address=1, size_bytes=100, category="parameter", name="weight")
PLANNED = PlannedVariant(
    name="baseline",
    world_size=1,
    peak_allocated_bytes=PlannedPeak(
        value=440, low=440, high=440, phase="forward", categories={"parameter": 120, "input": 320}
    ),
    step_s=StepTime(
        total=Interval(value=0.08, low=0.05, high=0.12),
        parts={"GEMM": 40e-6, "host": 15e-6, "between kernels": 5e-6},
        dominant="GEMM",
        source="by hand",
    ),
)
PLAN = Plan(
    created_at="2026-01-01T00:00:00+00:00",
    perfkit="0.9",
    command="perfkit plan",
    workload=WorkloadSpec(name="gpt"),
    dtype="fp32",
    accumulation=1,
    variants=(PLANNED,),
)


def suite(folder: Path, plan: Plan = PLAN) -> Analysis:
    """A baseline with a step of 0.1 s that holds 400 bytes at its peak, 100 of them a parameter; in its trace a GEMM
    takes 50 of 100 us. And a variant of which there is no plan."""
    write_suite(folder, {"baseline": [record(0.1)], "amp": [record(0.1)]})
    rank = folder / "baseline" / "0" / "rank0"
    write_json(
        folder / "baseline" / "0" / RUN_FILE, RunResult(status=RunStatus.OK, started_at="2026-01-01T12:00:00+00:00")
    )
    marks = [mark("perfkit::step#0", 0, 100), mark("perfkit::forward", 0, 100)]
    write_trace(rank / "trace.json.gz", [*marks, op("aten::mm", 10, 50, [(9, 9), (9, 9)])])
    events = build_allocations(device="cpu", source="by hand", known=(WEIGHT,), address=[5], size=[300])
    write_allocations(rank / "memory.parquet", events)
    write_json(folder / PLAN_FILE, plan)
    return analyze_suite(folder)


def test_figures_and_their_parts_are_held_against_what_was_measured(tmp_path: Path) -> None:
    baseline, amp = suite(tmp_path).variants
    held = baseline.prediction
    assert held is not None
    assert amp.prediction is None
    assert held.planned_before_run
    assert held.peak is not None
    assert (held.peak.measured, held.peak.error) == (400, pytest.approx(0.1))  # 440 of 400
    assert not held.peak.within
    assert held.step is not None
    assert (held.step.measured, held.step.error) == (0.1, pytest.approx(-0.2))
    assert held.step.within
    assert held.process is None  # nothing beyond the allocator was predicted
    errors = {part.name: part.error for part in held.categories}
    assert errors["parameter"] == pytest.approx(20 / 400)
    assert errors["input"] == pytest.approx(320 / 400)
    assert held.furthest_category is not None
    assert held.furthest_category.name == "input"
    times = {part.name: (part.predicted, part.measured, part.error) for part in held.parts}
    # Of the traced step of 100 us each is half; so it is of the timed one of 100 ms.
    assert times["GEMM"] == (40e-6, pytest.approx(50e-3), pytest.approx(-0.4996))
    assert times["host"] == (20e-6, pytest.approx(50e-3), pytest.approx(-0.4998))


def test_a_plan_that_was_made_later_is_not_called_a_prediction_made_before(tmp_path: Path) -> None:
    late = suite(tmp_path, replace(PLAN, created_at="2026-01-02T00:00:00+00:00"))
    held = late.variants[0].prediction
    assert held is not None
    assert not held.planned_before_run


def test_a_step_with_other_threads_is_not_compared_and_memory_is(tmp_path: Path) -> None:
    assert PLANNED.step_s is not None
    for threads, measured in ((2, 0.1), (4, None)):  # the fixture's runs have 2
        other = replace(PLANNED, step_s=replace(PLANNED.step_s, threads=threads))
        held = suite(tmp_path / str(threads), replace(PLAN, variants=(other,))).variants[0].prediction
        assert held is not None
        assert held.peak is not None
        assert (None if held.step is None else held.step.measured) == measured
        assert bool(held.parts) == (measured is not None)
    assert list_figures(held.step_reason) == ["4", "2"]


def test_a_step_that_is_planned_eagerly_and_runs_compiled_is_told(tmp_path: Path) -> None:
    assert PLANNED.step_s is not None
    eager = replace(PLANNED, step_s=replace(PLANNED.step_s, planned_eagerly=True))
    held = suite(tmp_path, replace(PLAN, variants=(eager,))).variants[0].prediction
    assert held is not None
    assert held.planned_eagerly


def test_what_could_not_be_planned_says_why(tmp_path: Path) -> None:
    refused = PlannedVariant(name="baseline", world_size=1, reason="values decide shapes")
    held = suite(tmp_path, replace(PLAN, variants=(refused,))).variants[0].prediction
    assert held is not None
    assert (held.reason, held.peak, held.step, held.categories) == ("values decide shapes", None, None, ())


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"workload": WorkloadSpec(name="gpt", params={"size": "small"})}, "workload"),
        ({"dtype": "bf16"}, "dtype"),
        ({"accumulation": 2}, "number of microbatches"),
        ({"device": "cuda", "device_name": "h100-80g"}, "device"),
    ],
)
def test_a_plan_of_something_else_is_not_held_against_it(
    tmp_path: Path, changed: dict[str, object], named: str
) -> None:
    analysis = suite(tmp_path, replace(PLAN, **changed))
    assert [variant.prediction for variant in analysis.variants] == [None, None]
    assert [named in note.text for note in analysis.warnings if note.id == "plan.other_request"] == [True]
