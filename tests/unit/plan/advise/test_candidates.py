"""What is on the shelf for a step, and what it risks."""

import re
from pathlib import Path
from typing import Any

import pytest

from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.plan.advise.advice import Goal
from perfkit.plan.advise.candidates import judge_loss_risk, make_candidate, select_candidates
from perfkit.plan.advise.subject import AdviceSubject, RunPlace, make_workload_subject
from perfkit.plan.target.target import CPU, parse_target
from perfkit.store.request import BenchRequest

STEP: Any = object()  # that a step was recorded, whatever is in it


def request(workload: str = "gpt", ranks: int | None = None) -> BenchRequest:
    spec = WorkloadSpec(name=workload)
    return BenchRequest(workload=spec, variants=(), device="cpu", device_count=0, cores=2, world_size=ranks)


HERE = make_workload_subject(request(), CPU)
TRACE = AdviceSubject("trace.json.gz", "trace", "a GPU", RunPlace("cuda", "bf16", 1), STEP)


def names(text: str, subject: AdviceSubject = HERE, goal: Goal = "time", batch_size: int | None = 4) -> list[str]:
    return [each.name for each in select_candidates(parse_variants(text), subject, goal, batch_size)[0]]


def left_out(
    text: str, subject: AdviceSubject = HERE, goal: Goal = "time", batch_size: int | None = 4
) -> dict[str, str]:
    return {each.name: each.reason for each in select_candidates(parse_variants(text), subject, goal, batch_size)[1]}


def test_what_cannot_act_is_left_out_with_its_reason() -> None:
    assert names("baseline,amp,tf32,fp8,zero1") == ["amp"]
    reasons = left_out("tf32,fp8")
    assert "fp32" in reasons["tf32"]
    assert re.search(r"fp8|torchao needs torch", reasons["fp8"])  # without a GPU that has it, or in torch 2.9
    assert names("zero1", make_workload_subject(request(ranks=2), CPU)) == ["zero1"]


def test_it_is_said_how_to_come_by_more_ranks() -> None:
    run = HERE._replace(kind="run", step=STEP)
    reasons = [left_out("zero1", subject)["zero1"] for subject in (HERE, run, TRACE)]
    assert [reason.count("2 ranks") for reason in reasons] == [1, 1, 1]
    assert all(reason.endswith("--world-size 2") for reason in reasons)
    assert ["workload" in reason for reason in reasons] == [False, True, True]
    assert ["train.py:build" in reason for reason in reasons] == [False, False, True]


def test_whether_it_is_emulated_is_asked_of_the_device_that_the_step_ran_on() -> None:
    assert names("fp8", TRACE) == ["fp8"]


def test_what_a_cpu_only_emulates_is_planned_for_a_gpu() -> None:
    assert names("fp8", make_workload_subject(request(), parse_target("h100-sxm", None))) == ["fp8"]


def test_what_acts_in_16_bits_only_is_offered_with_each_precision() -> None:
    on_gpu = make_workload_subject(request(), parse_target("rtx-4090", None))
    assert names("ckpt,flash,bf16:update=nearest,amp,bf16", on_gpu) == [
        "ckpt", "bf16:update=nearest", "amp", "bf16", "bf16:update=nearest+flash", "amp+flash"
    ]  # fmt: skip
    assert left_out("ckpt,flash,amp", on_gpu) == {}
    assert "flash" in left_out("ckpt,flash", on_gpu)
    assert names("flash,amp") == ["flash", "amp"]  # on a CPU it acts alone


def test_other_work_is_compared_for_a_sample_alone() -> None:
    assert names("batch:size=8,seq:len=64") == []
    assert names("batch:size=8,seq:len=64", goal="cost") == ["batch:size=8"]


def test_a_batch_that_cannot_be_compared_for_a_sample_is_left_out() -> None:
    assert "--max batch_size" in left_out("batch:auto", goal="cost")["batch:auto"]
    unknown = left_out("batch:size=8", TRACE, "cost", None)["batch:size=8"]
    assert "samples" in unknown


@pytest.mark.parametrize("step", [None, STEP])
def test_sizes_that_the_workload_does_not_have_are_left_out(step: Any, tmp_path: Path) -> None:
    program = tmp_path / "fixed.py"
    program.write_text("def build():\n    return None\n")
    subject = make_workload_subject(request(f"{program}:build"), CPU)._replace(step=step)
    reason = left_out("batch:size=8", subject, "cost")["batch:size=8"]
    assert "batch_size" in reason


def test_a_risk_is_the_loosest_of_all() -> None:
    def of(text: str) -> tuple[bool, float | None]:
        (specs,) = parse_variants(text)
        found = judge_loss_risk(make_candidate(specs).techniques)
        return found.comparable, found.tolerance

    assert of("ckpt") == (True, 1e-5)
    assert of("amp+ckpt") == (True, 0.0625)
    assert of("amp+lora") == (False, None)
