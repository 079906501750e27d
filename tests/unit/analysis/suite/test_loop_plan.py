"""Whether a plan is of what a loop of somebody else's trains."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, Plan, PlannedVariant, StepTime
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.suite.loop_plan import match_plan
from perfkit.core.files import write_json
from perfkit.core.record.attached_loop import AttachedLoop
from perfkit.core.record.rank_record import RankRecord, RunStatus, WorkloadFacts
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.store.summary import PLAN_FILE
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, write_run, write_suite_file

BYTES = {"parameter_bytes:fp32": 4000.0, "parameter_bytes:bf16": 20.0}


def variant(name: str = "baseline", world_size: int = 1, **changed: Any) -> PlannedVariant:
    facts = {**BYTES, "batch_size": 4.0}
    known = PlannedVariant(
        name=name,
        world_size=world_size,
        facts=facts,
        compute_dtype="fp32",
        optimizers=("AdamW",),
        step_s=StepTime(
            total=Interval(value=0.11, low=0.05, high=0.2), parts={"GEMM": 0.11}, dominant="GEMM", source="by hand"
        ),
    )
    return replace(known, **changed)


def plan(*variants: PlannedVariant) -> Plan:
    return Plan(
        created_at="2026-01-01T00:00:00+00:00",
        perfkit="0.9",
        command="perfkit plan",
        workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
        dtype="fp32",
        accumulation=2,
        variants=variants or (variant(),),
    )


def loop(**changed: Any) -> RankRecord:
    """Trains on 8 samples a step."""
    attached = AttachedLoop(step_marker="the steps of AdamW", optimizers=("AdamW, 5 parameters",))
    return record(0.1, **{"attached_loop": attached, "facts": BYTES, "flops": None, "losses": (), **changed})


def test_what_both_tell_is_the_same() -> None:
    found = match_plan(plan(), "train", loop(), "cpu")
    assert found.planned == variant()
    assert list_figures(found.told) == ["20", "4,000", "8"]


@pytest.mark.parametrize(
    ("changed", "device", "key", "values"),
    [
        ({}, "h100-sxm", "device", ["cpu", "h100-sxm"]),
        ({"facts": {"parameter_bytes:fp32": 4004.0}}, "cpu", "parameter bytes", ["4,000", "4,004"]),
        ({"compute_dtype": "bf16"}, "cpu", "dtype", ["fp32", "bf16"]),
        ({"attached_loop": AttachedLoop(step_marker="", optimizers=("SGD, 5",))}, "cpu", "optimizer", ["AdamW", "SGD"]),
        (
            {"workload": WorkloadFacts(unit="samples", units_per_batch=16, parameters=100)},
            "cpu",
            "samples",
            ["8", "16"],
        ),
    ],
)
def test_one_key_that_differs_is_enough(changed: dict[str, Any], device: str, key: str, values: list[str]) -> None:
    found = match_plan(plan(), "train", loop(**changed), device)
    assert found.planned is None
    assert re.search(rf"{key}\b.*: .*\b{values[0]}\b.*\b{values[1]}\b", found.told)


def test_what_a_loop_does_not_tell_is_said() -> None:
    unknown = WorkloadFacts(unit="tokens", units_per_batch=512, parameters=100)
    long = variant(facts={**BYTES, "batch_size": 4.0, "sequence_length": 64.0})
    found = match_plan(plan(long), "train", loop(workload=unknown), "cpu")
    assert found.planned is not None
    assert found.told.split(": ")[-1].split(", ") == ["samples per step", "sequence length"]


@pytest.mark.parametrize(("planned", "ran"), [(variant(facts={}), loop()), (variant(), loop(facts={}))])
def test_without_bytes_of_parameters_nothing_is_the_same(planned: PlannedVariant, ran: RankRecord) -> None:
    found = match_plan(plan(planned), "train", ran, "cpu")
    assert (found.planned, found.told.startswith("parameter bytes")) == (None, True)


@pytest.mark.parametrize(("name", "chosen"), [("train", "baseline"), ("ckpt", "ckpt"), ("flash", "baseline")])
def test_the_variant_is_called_as_the_run_or_is_the_baseline(name: str, chosen: str) -> None:
    found = match_plan(plan(variant(), variant("ckpt"), variant("flash@2", 2)), name, loop(), "cpu")
    assert found.planned is not None
    assert found.planned.name == chosen
    unnamed = f"; no variant is named like the run, {name}: baseline, ckpt, flash@2"
    assert found.told.endswith(unnamed) == (name == "train")


def test_the_only_variant_is_meant() -> None:
    found = match_plan(plan(variant("zero3@2", 2)), "train", loop(rank=0, world_size=2), "cpu")
    assert found.planned is not None
    alone = match_plan(plan(variant("zero3@2", 2)), "train", loop(), "cpu")
    assert (alone.planned, list_figures(alone.told)) == (None, ["1"])
    refused = match_plan(plan(variant(reason="values decide shapes")), "train", loop(), "cpu")
    assert refused.planned is None
    assert refused.told.endswith(": values decide shapes")


def suite(folder: Path, kept: Plan) -> Analysis:
    """The run of a loop `train`."""
    spec = RunSpec(workload=WorkloadSpec(name="train"), launch=LaunchSpec())
    ran = RunResult(status=RunStatus.OK, started_at="2026-01-01T12:00:00+00:00")
    entry = write_run(folder, spec, 0, [loop()], ran)
    write_suite_file(folder, ["train"], [replace(entry, variant="train")], {})
    write_json(folder / PLAN_FILE, kept)
    return analyze_suite(folder)


def test_a_run_is_held_against_a_plan_of_the_same(tmp_path: Path) -> None:
    (train,) = suite(tmp_path, plan()).variants
    held = train.prediction
    assert held is not None
    assert held.planned_before_run
    assert "gpt:size=nano" in held.basis
    assert "device cpu" in held.basis
    assert held.step is not None
    assert (held.step.measured, held.step.error) == (0.1, pytest.approx(0.1))


def test_a_run_of_something_else_is_not_and_says_by_what(tmp_path: Path) -> None:
    analysis = suite(tmp_path, plan(variant(optimizers=("SGD",))))
    assert analysis.variants[0].prediction is None
    (said,) = (warning.text for warning in analysis.warnings if warning.id == "plan.other_loop")
    assert re.search("optimizer: SGD .*, AdamW", said)
