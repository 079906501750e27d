"""Rows of a planned step, by hand: 1 TFLOP/s in fp32 and 100 GB/s."""

import pytest

from perfkit.analysis.model.plan import Interval
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.plan.rehearsal.step_ops import Issued, StepCollective, StepOp
from perfkit.plan.target.work import Work
from perfkit.plan.timing.op_rows import build_op_rows
from tests.fixtures.plan_roofs import roofs
from tests.fixtures.plan_seconds import exactly

# 2 GFLOP take 2 ms at best, and 1 MB takes 10 us.
PRODUCT = StepOp(Work("GEMM", "fp32", 2e9, 1e6, matrix=True, op="aten::mm"), "forward")
LARGER = StepOp(Work("GEMM", "fp32", 6e9, 3e6, matrix=True, op="aten::mm"), "backward")
COPY = StepOp(Work("copy", "fp32", 0.0, 1e8, matrix=False, op="aten::copy_"), "forward")
HALF = StepOp(Work("GEMM", "fp8", 1e9, 1e6, matrix=True, op="aten::_scaled_mm"), "forward")
REDUCED = StepCollective(make_message_of_size(CollectiveType.ALL_REDUCE, 4.0, 2), 2, "optimizer")


class Predicted:
    """Efficiencies by which a call takes `factor` times its FLOPs over the peak or its bytes over the bandwidth."""

    def __init__(self, factor: float = 2.0, held: Roofs | None = None) -> None:
        self.roofs = roofs() if held is None else held
        self._factor = factor

    def seconds(self, work: Work) -> Interval:
        return exactly(self._factor * max(work.flops / 1e12, work.bytes / 1e11))


def rows(*issued: Issued, step_s: float = 0.1, predicted: Predicted | None = None):  # type: ignore[no-untyped-def]
    return build_op_rows(issued, predicted or Predicted(), step_s)  # type: ignore[arg-type]


def test_calls_of_an_op_add_up_whatever_their_shapes_and_phases() -> None:
    step, product, copy = rows(PRODUCT, LARGER, PRODUCT, COPY, REDUCED)
    assert (product.name, product.calls, product.flops, product.bytes) == ("aten::mm", 3, 10e9, 5e6)
    assert product.seconds == pytest.approx(0.02)
    assert (product.intensity, product.flops_per_s) == (2000, pytest.approx(5e11))
    assert (product.bound, product.attainable_s) == ("compute", pytest.approx(0.01))
    assert (product.efficiency, product.share) == (pytest.approx(0.5), pytest.approx(0.2))
    assert (copy.name, copy.bound, copy.intensity) == ("aten::copy_", "memory", 0)
    assert copy.attainable_s == pytest.approx(1e-3)
    assert (step.kind, step.seconds, step.flops, step.bytes) == ("step", 0.1, 10e9, 105e6)
    assert step.flops_per_s == pytest.approx(1e11)  # with the host, which has no row
    assert (step.attainable_s, step.efficiency) == (pytest.approx(0.011), pytest.approx(0.11))
    assert (step.bound, step.dtype, step.unit) == ("compute", "fp32", "matrix")


def test_without_a_peak_a_product_has_a_place_and_no_roof() -> None:
    _, product = rows(HALF)
    assert (product.intensity, product.flops_per_s) == (1000, pytest.approx(5e11))
    assert (product.attainable_s, product.efficiency, product.bound) == (None, None, "unknown")
    assert product.efficiency_reason.endswith("fp8")


def test_an_op_without_a_roof_takes_at_best_what_it_takes() -> None:
    """Of 6 ms 4 have a roof, at which they take 2; the others are 2 of the other op."""
    step, *_ = rows(PRODUCT, HALF, step_s=6e-3)
    assert (step.attainable_s, step.efficiency) == (pytest.approx(4e-3), pytest.approx(2 / 3))


def test_vector_work_without_a_peak_is_bound_by_its_bytes() -> None:
    add = StepOp(Work("elementwise", "int64", 1e6, 1e8, matrix=False, op="aten::add"), "forward")
    _, row = rows(add)
    assert (row.bound, row.attainable_s) == ("memory", pytest.approx(1e-3))


def test_what_is_predicted_faster_than_its_roof_has_no_share_of_it() -> None:
    _, product = rows(PRODUCT, predicted=Predicted(0.5))
    assert product.above_roof
    assert product.efficiency is None
    assert "roof" in product.efficiency_reason


def test_without_ceilings_there_are_no_roofs() -> None:
    step, product = rows(PRODUCT, predicted=Predicted(held=Roofs(None, "")))
    assert (product.attainable_s, product.bound, product.seconds) == (None, "unknown", pytest.approx(4e-3))
    assert (step.attainable_s, step.bound) == (None, "unknown")


def test_of_a_step_without_ops_there_are_none() -> None:
    assert rows(REDUCED) == ()
