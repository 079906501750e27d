"""Speed, utilization and cost of planned variants on GPUs, and their order."""

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import GpuOffer, Interval, PlannedPeak, PlannedVariant, StepTime
from perfkit.plan.rental.offers import (
    build_offers,
    compute_flops_per_unit,
    find_fastest,
    find_fewest,
    sort_offers,
)
from perfkit.plan.target.target import CPU, parse_target
from perfkit.store.price import Price

TARGET = parse_target("h100-sxm", None)
PEAK = 989.4e12  # bf16, dense


def planned(name: str, ranks: int, seconds: float, dtype: str = "bf16") -> PlannedVariant:
    total = Interval(value=seconds, low=seconds / 2, high=seconds * 2)
    return PlannedVariant(
        name=name,
        world_size=ranks,
        peak_allocated_bytes=PlannedPeak(value=8, low=8, high=8, phase="", categories={}),
        fits=True,
        step_s=StepTime(total=total, parts={}, dominant="", source=""),
        unit="tokens",
        units_per_step=4000.0 * ranks,
        matrix_flops=2e14,
        compute_dtype=dtype,
    )


def offer(count: int, fits: bool | None, seconds: float, cost: float | None = None) -> GpuOffer:
    step = Interval(value=seconds, low=seconds, high=seconds)
    return GpuOffer(device="a", count=count, variant="amp", limit_bytes=9, fits=fits, step_s=step, needed=step,
                    unit="tokens", units_per_step=1000.0, cost=cost)  # fmt: skip


def test_an_offer_recomputes_from_its_variant() -> None:
    per_unit = compute_flops_per_unit([planned("amp", 1, 1.0), planned("baseline@2", 2, 1.0)])
    assert per_unit == 2e14 * 2 / 8000
    (found,) = build_offers([planned("zero3@4", 4, 0.5)], TARGET, {"h100-sxm": Price(per_hour=3.6)}, per_unit)
    assert (found.variant, found.count, found.units_per_s) == ("zero3", 4, 32000.0)
    assert found.mfu == pytest.approx(2e14 / 0.5 / PEAK, rel=1e-3)
    assert found.cost == pytest.approx(4 * 3.6 / 3600 / 32000 * 1e6)


def test_what_is_not_known_stays_so() -> None:
    (found,) = build_offers([replace(planned("amp", 1, 1.0), step_s=None, step_reason="no link")], TARGET, {}, 1e9)
    assert (found.mfu, found.cost, found.units_per_s, found.reason) == (None, None, None, "no link")
    (beyond,) = build_offers([planned("amp", 1, 0.01)], TARGET, {}, 5e10)
    assert beyond.mfu is None
    assert build_offers([planned("amp", 1, 1.0)], CPU, {}, None) == []
    assert compute_flops_per_unit([planned("amp", 1, 1.0)]) is None


def test_those_that_fit_come_first_by_cost_else_by_speed() -> None:
    slow, fast, may, not_fitting = offer(1, True, 3.0), offer(8, True, 1.0), offer(2, None, 0.1), offer(4, False, 0.1)
    assert sort_offers([not_fitting, may, slow, fast]) == (fast, slow, may, not_fitting)
    priced = [replace(slow, cost=1.0), replace(fast, cost=2.0), replace(may, cost=0.1), not_fitting]
    assert [each.count for each in sort_offers(priced)] == [1, 8, 2, 4]
    assert find_fewest([not_fitting, may, fast, slow]) is slow
    assert find_fastest([not_fitting, may, slow, fast]) is fast
    assert find_fewest([may]) is None
