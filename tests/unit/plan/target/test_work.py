"""What an op's work is made of."""

import pytest

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op
from perfkit.devices.ceilings.peak import IEEE, TF32, Fp32Settings
from perfkit.plan.target.work import SMALL, UNALIGNED, LeastTime, Work, compute_least_time, make_work
from tests.fixtures.plan_roofs import roofs


def _matrix(rows: int, columns: int) -> TensorArg:
    return TensorArg((rows, columns), (columns, 1), "fp32")


MM = OpCall("aten::mm", (_matrix(4, 8), _matrix(8, 16)))


def test_a_products_flops_and_bytes_are_its_cost() -> None:
    cost = cost_op(MM)
    assert cost is not None
    assert make_work(MM, cost) == Work(
        op_class="GEMM",
        dtype="fp32",
        flops=2 * 4 * 8 * 16,
        bytes=4 * (4 * 8 + 8 * 16 + 4 * 16),
        matrix=True,
        op="aten::mm",
    )


def test_a_product_of_fp32_is_computed_in_what_the_device_is_set_to() -> None:
    cost = cost_op(MM)
    assert cost is not None
    work = make_work(MM, cost, Fp32Settings(matmul=TF32, conv=IEEE, rnn=IEEE))
    assert work is not None
    assert work.dtype == "tf32"


@pytest.mark.parametrize(
    ("flops", "moved", "unit", "expected"),
    [
        (None, 8.0, ComputeUnit.VECTOR, Work("elementwise", "fp32", 0.0, 8.0, matrix=False, op="aten::add")),
        (None, 8.0, ComputeUnit.MATRIX, None),
        (8.0, None, ComputeUnit.VECTOR, None),
    ],
)
def test_what_is_not_modeled(
    flops: float | None, moved: float | None, unit: ComputeUnit, expected: Work | None
) -> None:
    assert make_work(OpCall("aten::add", ()), OpCost(flops, moved, unit, "fp32", "test")) == expected


@pytest.mark.parametrize(("columns", "expected"), [(16, "GEMM"), (17, UNALIGNED)])
def test_a_product_in_16_bits_whose_rows_begin_anywhere_is_one_of_its_own_kind(columns: int, expected: str) -> None:
    operands = (TensorArg((4, 8), (8, 1), "bf16"), TensorArg((8, columns), (columns, 1), "bf16"))
    call = OpCall("aten::mm", operands)
    cost = cost_op(call)
    assert cost is not None
    work = make_work(call, cost)
    assert work is not None
    assert work.op_class == expected


def test_a_batch_of_products_smaller_than_a_tile_is_one_of_its_own_kind() -> None:
    call = OpCall(
        "aten::bmm", (TensorArg((9, 8, 64), (512, 64, 1), "bf16"), TensorArg((9, 64, 8), (512, 8, 1), "bf16"))
    )
    cost = cost_op(call)
    assert cost is not None
    work = make_work(call, cost)
    assert work is not None
    assert work.op_class == SMALL


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (Work("GEMM", "fp32", 1e12, 1e10, matrix=True), LeastTime(1.0, "compute")),
        (Work("GEMM", "fp32", 1e12, 2e11, matrix=True), LeastTime(2.0, "memory")),
        (Work("GEMM", "fp16", 1e12, 0.0, matrix=True), LeastTime(1.0, "compute", stands_in=True)),
        (Work("elementwise", "int64", 1e15, 1e11, matrix=False), LeastTime(1.0, "memory")),
    ],
)
def test_work_takes_at_least_what_the_ceilings_say(work: Work, expected: LeastTime) -> None:
    assert compute_least_time(work, roofs()) == expected
