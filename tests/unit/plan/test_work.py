"""What an op's work is made of."""

import pytest

from perfkit.cost.call import OpCall, OpCost, TensorArg, Unit
from perfkit.cost.op import op_cost
from perfkit.devices.peak import IEEE, TF32, Fp32Settings
from perfkit.plan.work import Work, work_of


def _matrix(rows: int, columns: int) -> TensorArg:
    return TensorArg((rows, columns), (columns, 1), "fp32")


MM = OpCall("aten::mm", (_matrix(4, 8), _matrix(8, 16)))


def test_a_products_flops_and_bytes_are_its_cost() -> None:
    cost = op_cost(MM)
    assert cost is not None
    assert work_of(MM, cost) == Work(
        op_class="GEMM", dtype="fp32", flops=2 * 4 * 8 * 16, bytes=4 * (4 * 8 + 8 * 16 + 4 * 16), matrix=True
    )


def test_a_product_of_fp32_is_computed_in_what_the_device_is_set_to() -> None:
    cost = op_cost(MM)
    assert cost is not None
    work = work_of(MM, cost, Fp32Settings(matmul=TF32, conv=IEEE, rnn=IEEE))
    assert work is not None
    assert work.dtype == "tf32"


@pytest.mark.parametrize(
    ("flops", "moved", "unit", "expected"),
    [
        (None, 8.0, Unit.VECTOR, Work("elementwise", "fp32", 0.0, 8.0, matrix=False)),
        (None, 8.0, Unit.MATRIX, None),
        (8.0, None, Unit.VECTOR, None),
    ],
)
def test_what_is_not_modelled(flops: float | None, moved: float | None, unit: Unit, expected: Work | None) -> None:
    assert work_of(OpCall("aten::add", ()), OpCost(flops, moved, unit, "fp32", "test")) == expected
