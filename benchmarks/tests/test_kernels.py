"""Steps with a kernel of attention that torch has no more."""

import pytest
from msgspec.structs import replace

from benchmarks.attention_kernels import SDPA
from benchmarks.published.kernels import KERNELS, plan_kernel
from perfkit.analysis.model.plan import Interval, PlannedVariant, StepTime
from perfkit.analysis.model.step import OpRow

STEP = StepTime(
    total=Interval(value=1.0, low=0.8, high=1.5),
    parts={"GEMM": 0.7, "attention": 0.3},
    dominant="GEMM",
    source="",
)
TRITON = "FlashAttention 1 in Triton"


def make_plan(*ops: str) -> PlannedVariant:
    row = OpRow(
        kind="op",
        name="",
        calls=1.0,
        seconds=0.1,
        share=0.1,
        flops=None,
        bytes=None,
        intensity=None,
        flops_per_s=None,
        bound="compute",
        attainable_s=None,
    )
    rows = tuple(replace(row, name=f"{SDPA}{op}") for op in ops)
    return PlannedVariant(name="", world_size=1, step_s=STEP, ops=rows)


def test_a_step_takes_longer_by_its_attention_times_the_ratio() -> None:
    planned = plan_kernel(make_plan("flash_attention", "flash_attention_backward"), TRITON)
    forward, backward = KERNELS[TRITON]
    longer = 0.1 * (forward.middle - 1) + 0.1 * (backward.middle - 1)
    assert planned.step_s is not None
    assert planned.step_s.total.value == pytest.approx(1.0 + longer)
    assert planned.step_s.total.low == pytest.approx(0.8 + 0.1 * 0.3 + 0.1 * 0.6)
    assert planned.step_s.total.high == pytest.approx(1.5 + 0.1 * 0.5 + 0.1 * 1.5)
    assert planned.step_s.parts["attention"] == pytest.approx(0.3 + longer)


def test_a_step_of_other_attention_is_refused() -> None:
    with pytest.raises(ValueError, match="FlashAttention 2"):
        plan_kernel(make_plan("cudnn_attention"), TRITON)
