"""Figures of plans, by hand."""

import pytest

from perfkit.analysis.model.plan import Interval, NonTensorMemory, PlannedPeak, PlannedVariant, StepTime
from perfkit.plan.advise.estimates import compute_planned_saving, estimate_largest_batch
from perfkit.plan.rehearsal.step_ops import StepOp
from perfkit.plan.target.work import Work
from perfkit.plan.timing.step_time import predict_step_time
from tests.fixtures.plan_seconds import OneFlopASecond


def planned(peak: int, *beyond: tuple[int, int, int], **categories: int) -> PlannedVariant:
    rows = tuple(
        NonTensorMemory(name="row", bytes=Interval(value=value, low=low, high=high), source="")
        for value, low, high in beyond
    )
    named = {name.replace("_", " "): held for name, held in categories.items()}
    known = PlannedPeak(value=peak, low=peak, high=peak, phase="backward", categories=named)
    return PlannedVariant(name="amp", world_size=1, peak_allocated_bytes=known, outside_allocator=rows)


def takes(value: float, low: float, high: float) -> StepTime:
    return StepTime(total=Interval(value=value, low=low, high=high), parts={}, dominant="", source="")


def test_the_largest_batch_fills_what_the_model_and_the_rest_leave() -> None:
    """Of 100 bytes 40 are the model's: a batch of 4 takes 15 a sample, and (200 - 20 - 40) / 15 = 9.3."""
    variant = planned(100, (10, 5, 20), parameter=20, optimizer_state=20, activation=60)
    assert estimate_largest_batch(variant, 4, 200) == 9
    assert estimate_largest_batch(variant, 4, 50) == 0
    assert estimate_largest_batch(planned(100, parameter=100), 4, 200) is None


def test_a_planned_saving_holds_the_fast_ends_together() -> None:
    saved = compute_planned_saving(takes(10, 8, 12), takes(6, 5, 7))
    assert saved is not None
    # 5 of 8 is a share of 0.625, 7 of 12 one of 0.583: of a step of 10 the rest is saved.
    assert (saved.low, saved.value, saved.high) == pytest.approx((3.75, 4, 10 * 5 / 12))
    assert compute_planned_saving(None, takes(6, 5, 7)) is None


def test_a_step_of_more_samples_is_compared_by_the_share_of_as_many() -> None:
    saved = compute_planned_saving(takes(10, 10, 10), takes(16, 16, 16), ratio=2)
    assert saved is not None
    assert saved.value == pytest.approx(2)


@pytest.mark.parametrize("host", [0.01, 5.0])
def test_a_planned_fused_update_saves_no_more_than_the_update_takes(host: float) -> None:
    """Whether the device or the host bounds the step."""

    def step(update: list[float]) -> StepTime:
        passes = [StepOp(Work("GEMM", "fp32", 3.0, 0.0, matrix=True), "forward")] * 4
        calls = [StepOp(Work("optimizer", "fp32", seconds, 0.0, matrix=True), "optimizer") for seconds in update]
        found = predict_step_time([*passes, *calls], "cuda", OneFlopASecond(host=host, launch=0.5, gap=0.1))
        assert isinstance(found, StepTime)
        return found

    separate, fused, without = step([1.0] * 7), step([1.0]), step([])
    saving = compute_planned_saving(separate, fused)
    most = compute_planned_saving(separate, without)
    assert saving is not None
    assert most is not None
    assert 0 < saving.value < most.value
    assert saving.high < most.high
