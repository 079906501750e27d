"""Plans over several GPUs: what is shared, what is offered, and what is tried where nothing fits."""

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec, format_variant_label, parse_variants
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.plan_rental import RentalRequest, join_variants, plan_rental
from perfkit.plan.target.target import Target, parse_target
from perfkit.plan.variants.verdict import judge_fit
from perfkit.store.price import Price
from perfkit.store.request import BenchRequest

GIB = 2**30
TARGETS = (parse_target("l40s", None), parse_target("h100-sxm", None))
PRICES = {"l40s": Price(per_hour=1.0), "h100-sxm": Price(per_hour=3.0)}


def request(variants: str) -> BenchRequest:
    return BenchRequest(
        workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
        variants=tuple(parse_variants(variants)),
        device="cpu",
        device_count=0,
        cores=1,
    )


class Planner:
    """A model of `size` GiB, split by zero3; an h100 is twice as fast as an l40s."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked: list[tuple[str, str]] = []

    def __call__(self, run: ScheduledRun, target: Target) -> PlannedVariant:
        self.asked.append((target.device, run.spec.variant))
        ranks, labels = run.spec.launch.world_size, {each.label for each in run.spec.techniques}
        needed = self.size * GIB // (ranks if "zero3" in labels else 1) // (2 if "ckpt" in labels else 1)
        seconds = 1.0 if target.device == "h100-sxm" else 2.0
        total = Interval(value=seconds, low=seconds, high=seconds)
        variant = PlannedVariant(
            name=run.spec.variant,
            world_size=ranks,
            peak_allocated_bytes=PlannedPeak(value=needed, low=needed, high=needed, phase="", categories={}),
            step_s=StepTime(total=total, parts={}, dominant="", source=""),
            unit="tokens",
            units_per_step=1000.0 * ranks,
            matrix_flops=1e12,
            compute_dtype="bf16",
        )
        return judge_fit(variant, target)


def test_the_cheapest_of_all_gpus_and_numbers_is_first() -> None:
    planner = Planner(size=100)
    plan = plan_rental(request("zero3"), RentalRequest(TARGETS, (2, 4, 8), PRICES, 1e9), "", plan=planner)
    rows = [(each.device, each.count, each.fits) for each in plan.offers]
    # 50 GiB each on two: too many for an l40s of 48, which costs less per token than an h100 of 80.
    assert rows == [("l40s", 4, True), ("l40s", 8, True), ("h100-sxm", 2, True), ("h100-sxm", 4, True),
                    ("h100-sxm", 8, True), ("l40s", 2, False)]  # fmt: skip
    assert (plan.device_name, plan.run_units) == ("l40s", 1e9)
    assert [variant.world_size for variant in plan.variants] == [2, 4, 8]
    assert planner.asked.count(("l40s", "baseline")) == 1
    assert plan.offers[0].mfu is not None


def test_where_nothing_fits_all_variants_are_planned_as_one() -> None:
    plan = plan_rental(request("zero3,ckpt"), RentalRequest(TARGETS[:1], (4,), {}), "", plan=Planner(size=300))
    first, *_ = plan.offers
    assert (first.variant, first.fits) == ("zero3+ckpt", True)
    assert len(plan.offers) == 3


def test_what_fits_is_not_joined() -> None:
    plan = plan_rental(request("zero3,ckpt"), RentalRequest(TARGETS[:1], (4,), {}), "", plan=Planner(size=80))
    assert {each.variant for each in plan.offers} == {"zero3", "ckpt"}


@pytest.mark.parametrize(("variants", "joined"), [("amp,ckpt", "amp+ckpt"), ("amp", None), ("zero2,zero3", None)])
def test_joined_variants(variants: str, joined: str | None) -> None:
    union = join_variants(request(variants).variants)
    assert (None if union is None else format_variant_label(union)) == joined


@pytest.mark.parametrize(("variants", "counts"), [("ckpt:fit=8GiB", (2,)), ("zero3", (1,))])
def test_requests_that_cannot_be_answered(variants: str, counts: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        plan_rental(request(variants), RentalRequest(TARGETS, counts, {}), "", plan=Planner(size=1))


def test_an_unknown_need_is_no_fit() -> None:
    def plan_nothing(run: ScheduledRun, _target: Target) -> PlannedVariant:
        return PlannedVariant(name=run.spec.variant, world_size=2, reason="no kernel")

    plan = plan_rental(replace(request("zero3")), RentalRequest(TARGETS, (2,), {}), "", plan=plan_nothing)
    assert {(each.fits, each.needed, each.reason) for each in plan.offers} == {(None, None, "no kernel")}
