"""The largest size of each variant, planned at that size: which fits, how fast it is, and what is refused."""

import pytest

from perfkit.analysis.model.plan import Interval, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.plan_largest import plan_largest
from perfkit.plan.target.target import CPU, Target, parse_target
from perfkit.store.price import Price
from perfkit.store.request import BenchRequest
from perfkit.techniques.compose import resize_workload

GIB = 2**30
TARGET = parse_target("l40s", None)  # 48 GiB


def request(variants: str, workload: str = "gpt") -> BenchRequest:
    params = {"size": "nano"} if workload == "gpt" else {}
    return BenchRequest(
        workload=WorkloadSpec(name=workload, params=params),
        variants=tuple(parse_variants(variants)),
        device="cpu",
        device_count=0,
        cores=1,
    )


def plan(run: ScheduledRun, _target: Target) -> PlannedVariant:
    """8 GiB, and one more per sample or 128 tokens, half of it with ckpt; FLOPs per token grow with the length."""
    params = resize_workload(run.spec.workload, run.spec.techniques).params
    batch, length = int(params.get("batch_size", 1)), int(params.get("seq_len", 128))
    samples = batch * length / 128
    needed = int((8 + samples / (2 if "ckpt" in run.spec.variant else 1)) * GIB)
    total = Interval(value=samples, low=samples, high=samples)
    return PlannedVariant(
        name=run.spec.variant,
        world_size=1,
        peak_allocated_bytes=PlannedPeak(value=needed, low=needed, high=needed, phase="", categories={}),
        step_s=StepTime(total=total, parts={}, dominant="", source=""),
        unit="tokens",
        units_per_step=float(batch * length),
        matrix_flops=1e6 * length * batch * length,
        compute_dtype="fp32",
    )


def test_each_variant_is_planned_at_its_largest_batch() -> None:
    prices = {"l40s": Price(per_hour=3.6)}
    found = plan_largest(
        request("ckpt"), TARGET, "batch_size", margin=0.0, most=None, command="", prices=prices, plan=plan
    )
    bare, ckpt = found.largest
    assert bare.size is not None
    assert 36 <= bare.size <= 40  # 8 GiB of 48 stay for the model; sizes within a sixteenth are not told apart
    assert ckpt.size is not None
    assert 74 <= ckpt.size <= 80
    assert [each.name for each in found.variants] == [f"batch:size={bare.size}", f"ckpt+batch:size={ckpt.size}"]
    assert [each.fits for each in found.variants] == [True, True]
    assert [each.units_per_s for each in found.offers] == [128.0, 128.0]
    assert found.offers[0].cost == pytest.approx(3.6 / 3600 / 128 * 1e6)


def test_utilization_is_by_the_flops_of_the_unmodified_model_at_the_same_length() -> None:
    found = plan_largest(request("ckpt"), TARGET, "seq_len", margin=0.0, most=4096, command="", prices={}, plan=plan)
    assert [each.parameter for each in found.largest] == ["seq_len", "seq_len"]
    shares = {offer.variant: offer.mfu for offer in found.offers}
    lengths = {each.chosen.variant: each.chosen.size for each in found.largest}
    (first, first_mfu), (second, second_mfu) = shares.items()
    assert first_mfu is not None
    assert second_mfu is not None
    assert first_mfu / second_mfu == pytest.approx(lengths[first] / lengths[second])  # FLOPs per token


def test_where_no_size_fits_the_last_one_is_planned() -> None:
    small = TARGET._replace(limit_bytes=6 * GIB)
    found = plan_largest(request("ckpt"), small, "batch_size", margin=0.0, most=8, command="", prices={}, plan=plan)
    assert [each.size for each in found.largest] == [None, None]
    assert [each.fits for each in found.variants] == [False, False]


@pytest.mark.parametrize(("workload", "target"), [("gpt", CPU), ("resnet", TARGET)])
def test_a_size_needs_a_limit_and_a_workload_that_has_it(workload: str, target: Target) -> None:
    with pytest.raises(UsageError, match="seq_len"):
        plan_largest(request("ckpt", workload), target, "seq_len", margin=0.0, most=8, command="", prices={}, plan=plan)
