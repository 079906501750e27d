"""Estimates from plans with few blocks, against whole plans."""

from collections.abc import Callable

import msgspec
import pytest

from perfkit.analysis.model.plan import Interval, NonTensorMemory, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.spec import WorkloadSpec, format_variant_label, parse_variants
from perfkit.measure.schedule import Techniques
from perfkit.plan.search.exclusions import is_confirmed
from perfkit.plan.search.plan_task import estimate_plan, plan_task
from perfkit.plan.search.search import search_combinations
from perfkit.plan.search.search_tasks import PlanDepth, SearchTask
from perfkit.plan.target.target import parse_target
from perfkit.plan.variants import block_estimates
from perfkit.plan.variants.block_estimates import (
    FEWER,
    MORE,
    extrapolate_blocks,
    find_estimated_blocks,
    make_estimating_planner,
)
from perfkit.store.request import BenchRequest

TARGET = parse_target("rtx-4090", None)
BLOCKS = 16
LLAMA = WorkloadSpec(
    name="hf:LlamaConfig",
    params={
        "num_hidden_layers": BLOCKS, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
        "vocab_size": 512, "seq_len": 64, "batch_size": 2,
    },
)  # fmt: skip


def variant(blocks: int, reason: str = "") -> PlannedVariant:
    """A plan of so many blocks: 100 bytes and 10 a block, 2 outside, 1 s and 0.5 s a block."""
    if reason:
        return PlannedVariant(name="amp", world_size=1, reason=reason)
    size, seconds = 100 + 10 * blocks, 1 + 0.5 * blocks
    return PlannedVariant(
        name="amp",
        world_size=1,
        peak_allocated_bytes=PlannedPeak(
            value=size, low=size - blocks, high=size + blocks, phase="backward", categories={}
        ),
        outside_allocator=(NonTensorMemory(name="", bytes=Interval(value=2, low=1, high=3), source=""),),
        flops=7.0 * blocks,
        step_s=StepTime(
            total=Interval(value=seconds, low=seconds / 2, high=seconds * 2), parts={}, dominant="", source=""
        ),
    )


def test_figures_are_those_of_a_line_through_two_numbers_of_blocks() -> None:
    found = extrapolate_blocks(variant(3), variant(4), distance=29)
    needed, whole = found.needed_bytes, variant(32)
    assert (needed, found.flops) == (whole.needed_bytes, 7.0 * 32)
    assert found.step_s is not None
    assert found.step_s.total == Interval(value=17.0, low=8.5, high=34.0)
    assert is_confirmed(found, whole)
    assert not is_confirmed(found, variant(31))


def test_categories_are_parts_of_the_peak() -> None:
    fewer, more = (
        msgspec.structs.replace(
            variant(blocks),
            peak_allocated_bytes=msgspec.structs.replace(
                variant(blocks).peak_allocated_bytes,
                categories={"parameter": 60 + 4 * blocks, "activation": 40 + 6 * blocks},
            ),
        )
        for blocks in (3, 4)
    )
    peak = extrapolate_blocks(fewer, more, distance=29).peak_allocated_bytes
    assert peak is not None
    assert peak.categories == {"parameter": 188, "activation": 232}
    assert sum(peak.categories.values()) == peak.value


def test_advice_plans_few_blocks_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []

    def make(request: BenchRequest, *_: object) -> Callable[[Techniques], PlannedVariant]:
        blocks = int(request.workload.params["num_hidden_layers"])

        def plan(techniques: Techniques) -> PlannedVariant:
            label = format_variant_label(techniques)
            asked.append((blocks, label))
            return variant(blocks, reason=f"{blocks} are too few" if label == "ckpt" and blocks < BLOCKS else "")

        return plan

    monkeypatch.setattr(block_estimates, "make_planner", make)
    request = BenchRequest(workload=LLAMA, variants=(), device="cpu", device_count=0, cores=1)
    plan = make_estimating_planner(request, TARGET)
    amp, ckpt = parse_variants("amp,ckpt")
    assert plan(amp).needed_bytes == variant(BLOCKS).needed_bytes
    assert plan(amp).fits is True
    assert plan(ckpt) == variant(BLOCKS)
    assert asked == [(FEWER, "amp"), (MORE, "amp"), (FEWER, "ckpt"), (MORE, "ckpt"), (BLOCKS, "ckpt")]


def test_a_refusal_that_is_of_no_number_of_blocks_needs_no_whole_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(request: BenchRequest, *_: object) -> Callable[[Techniques], PlannedVariant]:
        blocks = int(request.workload.params["num_hidden_layers"])
        return lambda _: variant(blocks, reason="no convolutions") if blocks < BLOCKS else pytest.fail("planned whole")

    monkeypatch.setattr(block_estimates, "make_planner", make)
    request = BenchRequest(workload=LLAMA, variants=(), device="cpu", device_count=0, cores=1)
    (amp,) = parse_variants("amp")
    assert make_estimating_planner(request, TARGET)(amp).reason == "no convolutions"


def test_a_whole_plan_where_a_technique_cannot_act_with_few_blocks() -> None:
    asked: list[int] = []

    def plan(spec: WorkloadSpec) -> PlannedVariant:
        blocks = int(spec.params["num_hidden_layers"])
        asked.append(blocks)
        return variant(blocks, reason="too few" if blocks < BLOCKS else "")

    planned = estimate_plan(plan, LLAMA, BLOCKS, TARGET)
    assert asked == [FEWER, MORE, BLOCKS]
    assert planned.variant == variant(BLOCKS)


@pytest.mark.parametrize(("name", "blocks"), [("llama-3-8b", 32), ("bert-base", None), ("resnet", None), ("gpt", None)])
def test_models_with_many_blocks_as_a_parameter_are_estimated(name: str, blocks: int | None) -> None:
    assert find_estimated_blocks(WorkloadSpec(name=name), "cuda") == blocks


def plan(label: str, depth: PlanDepth) -> PlannedVariant:
    asked = BenchRequest(workload=LLAMA, variants=((),), device="cpu", device_count=0, cores=1)
    return plan_task(asked, TARGET, BLOCKS, SearchTask(parse_variants(label)[0], depth)).variant


@pytest.mark.slow
@pytest.mark.parametrize("label", ["amp+flash", "bf16+ckpt", "optim_in_backward"])
def test_estimates_are_confirmed_by_whole_plans(label: str) -> None:
    estimate, whole = plan(label, PlanDepth.ESTIMATE), plan(label, PlanDepth.WHOLE)
    assert is_confirmed(estimate, whole)
    assert estimate.flops == pytest.approx(whole.flops)
    assert estimate.needed_bytes is not None
    assert whole.needed_bytes is not None
    assert estimate.needed_bytes.low == pytest.approx(whole.needed_bytes.low, rel=0.01)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_search_with_estimates_has_the_best_of_one_that_plans_all_whole() -> None:
    peak = plan("amp+flash", PlanDepth.WHOLE).needed_bytes
    assert peak is not None
    target = TARGET._replace(limit_bytes=int(peak.high))  # so that some combinations fit
    asked = BenchRequest(workload=LLAMA, variants=((),), device="cpu", device_count=0, cores=1)

    def search(estimates: bool) -> tuple[list[str], list[str]]:
        found = search_combinations(
            lambda tasks: ((task, plan_task(asked, target, BLOCKS, task)) for task in tasks),
            1,
            lambda *_: None,
            estimates,
        )
        return [each.name for each in found.fitting], [each.name for each in found.excluded]

    (every, _), (found, excluded) = search(False), search(True)
    assert found[0] == every[0]
    assert {*every} <= {*found, *excluded}
