"""Which sizes of a matrix product decide on alignment, against products whose memory can be drawn."""

import pytest

from perfkit.analysis.trace.roofline.matmul_operands import describe_layout, list_contiguous_sizes, parse_matmul_sizes
from perfkit.analysis.trace.roofline.quantization import MatmulSizes
from perfkit.cost.calls.op_call import TensorArg

M, K, N = 154, 64, 3000


def matrix(rows: int, columns: int, *, transposed: bool = False) -> TensorArg:
    return TensorArg((rows, columns), (1, rows) if transposed else (columns, 1), "bf16")


OUT = matrix(M, N)
BIAS = TensorArg((N,), (1,), "bf16")


@pytest.mark.parametrize(
    ("name", "args", "sides", "told"),
    [
        # A layer's forward: the weight is stored as (N, K). Neither the number of rows nor the result's place counts.
        ("aten::mm", (matrix(M, K), matrix(K, N, transposed=True)), "row,column", (K, K, N)),
        ("aten::mm", (matrix(M, K), matrix(K, N, transposed=True), OUT), "row,column", (K, K, N)),
        ("aten::addmm", (BIAS, matrix(M, K), matrix(K, N, transposed=True), OUT, 1, 1), "row,column", (K, K, N)),
        ("aten::linear", (matrix(M, K), matrix(N, K), BIAS), "row,column", (K, K, N)),
        # The gradient of its input and of its weight, in which the first operand is read by columns.
        ("aten::mm", (matrix(M, K), matrix(K, N)), "row,row", (K, N, N)),
        ("aten::mm", (matrix(M, K, transposed=True), matrix(K, N)), "column,row", (M, N, N)),
        ("aten::mm", (TensorArg((M, K), (), "bf16"), TensorArg((K, N), (), "bf16")), "", (K, N)),
        ("aten::relu", (matrix(M, K), matrix(K, N)), "", ()),
        ("aten::mm", (matrix(M, K),), "", ()),
    ],
)
def test_sizes_that_lie_side_by_side(name: str, args: tuple[TensorArg, ...], sides: str, told: tuple[int, ...]) -> None:
    assert describe_layout(name, args) == sides
    shapes = [arg.shape for arg in args if isinstance(arg, TensorArg)]
    assert list_contiguous_sizes(name, shapes, sides) == told


def stack(*shape: int) -> TensorArg:
    return TensorArg(shape, (1,) * len(shape), "bf16")


@pytest.mark.parametrize(
    ("name", "args", "product"),
    [
        ("aten::mm", (matrix(M, K), matrix(K, N), OUT), MatmulSizes(1, M, N, K)),
        ("aten::addmm", (BIAS, matrix(M, K), matrix(K, N)), MatmulSizes(1, M, N, K)),
        ("aten::bmm", (stack(8, M, K), stack(8, K, N)), MatmulSizes(8, M, N, K)),
        ("aten::baddbmm", (stack(8, M, N), stack(8, M, K), stack(8, K, N)), MatmulSizes(8, M, N, K)),
        ("aten::linear", (stack(4, 7, K), matrix(N, K), BIAS), MatmulSizes(1, 28, N, K)),
        ("aten::_scaled_mm", (matrix(M, K), matrix(K, N), stack(1), stack(1)), MatmulSizes(1, M, N, K)),
        ("aten::mm", (matrix(M, K), matrix(N, K)), None),
        ("aten::bmm", (stack(8, M, K), stack(4, K, N)), None),
        ("aten::relu", (matrix(M, K), matrix(K, N)), None),
        ("aten::mm", (matrix(M, K),), None),
    ],
)
def test_sizes_of_products(name: str, args: tuple[TensorArg, ...], product: MatmulSizes | None) -> None:
    assert parse_matmul_sizes(name, args) == product
