"""Reading arguments and counting their bytes."""

import math

import pytest

from perfkit.cost.calls.args import (
    UnmodeledError,
    broadcast_shapes,
    count_distinct_bytes,
    get_integers,
    get_optional_tensor,
    get_tensor,
    get_tensor_list,
    infer_result_dtype,
    make_cost,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import ComputeUnit, TensorArg


def t(*shape: int, dtype: str = "fp32", stride: tuple[int, ...] | None = None) -> TensorArg:
    contiguous = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return TensorArg(shape, stride or contiguous, dtype)


def test_distinct_bytes_reads_a_repeated_dimension_once() -> None:
    assert count_distinct_bytes(t(8, 16)) == 8 * 16 * 4
    assert count_distinct_bytes(t(8, 16, stride=(0, 1))) == 16 * 4
    assert count_distinct_bytes(t(8, 16, dtype="bf16", stride=(0, 0))) == 2
    assert count_distinct_bytes(t()) == 4


def test_empty_tensor_has_no_bytes_even_without_a_dtype() -> None:
    assert count_distinct_bytes(t(0, 16)) == 0
    assert count_distinct_bytes(t(0, 16, dtype="")) == 0
    assert math.isnan(count_distinct_bytes(t(1, 16, dtype="")))


def test_unknown_bytes_become_none_in_a_cost() -> None:
    assert make_cost(1.0, math.nan, ComputeUnit.VECTOR, "", "x").bytes is None
    assert make_cost(1.0, 4.0, ComputeUnit.VECTOR, "fp8_e4m3", "x").dtype == "fp8"


def test_integer_arithmetic_is_no_flop() -> None:
    assert make_vector_cost(10, 40, "int64", "x").flops == 0
    assert make_vector_cost(10, 40, "fp16", "x").flops == 10
    assert make_vector_cost(10, 40, "", "x").flops == 10  # a list of tensors in a trace has no dtype


def test_broadcast() -> None:
    assert broadcast_shapes([(4, 1, 3), (5, 1), ()]) == (4, 5, 3)
    with pytest.raises(UnmodeledError):
        broadcast_shapes([(4, 3), (4,)])


def test_result_dtype_follows_torch() -> None:
    assert infer_result_dtype([t(4, dtype="bf16"), t(4, dtype="fp32")]) == "fp32"
    assert infer_result_dtype([t(4, dtype="bf16"), t(4, dtype="fp16")]) == "fp32"
    assert infer_result_dtype([t(4, dtype="bf16"), t(dtype="fp64")]) == "bf16"  # a scalar does not widen
    assert infer_result_dtype([t(4, dtype="int64"), t(dtype="fp64")]) == "fp32"  # but raises the category
    assert infer_result_dtype([t(dtype="fp32"), t(dtype="fp64")]) == "fp64"


@pytest.mark.parametrize("args", [(), (None,), (3,), ((t(2),),)])
def test_a_lost_tensor_is_refused(args: tuple[object, ...]) -> None:
    with pytest.raises(UnmodeledError):
        get_tensor(args, 0)  # type: ignore[arg-type]
    assert get_optional_tensor(args, 0) is None  # type: ignore[arg-type]


def test_lists() -> None:
    assert get_tensor_list(((t(2), None, t(3)),), 0) == (t(2), t(3))
    assert get_integers(((1, 2),), 0) == (1, 2)
    for args in [(t(2, 3),), (None,), ((1.5,),)]:
        with pytest.raises(UnmodeledError):
            get_integers(args, 0)
    assert numel(t(2, 3)) == 6
