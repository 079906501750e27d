"""Matrix products against hand calculations; `test_torch_registry.py` compares them with torch's own."""

import math

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "fp32", stride: tuple[int, ...] | None = None) -> TensorArg:
    contiguous = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return TensorArg(shape, stride or contiguous, dtype)


def cost(name: str, *args: object) -> OpCost:
    result = cost_op(OpCall(name, args))  # type: ignore[arg-type]
    assert result is not None
    return result


def test_mm() -> None:
    found = cost("aten::mm", t(3, 5, dtype="bf16"), t(5, 7, dtype="bf16"))
    assert found.flops == 2 * 3 * 5 * 7
    assert found.bytes == 2 * (15 + 35 + 21)
    assert (found.unit, found.dtype) == (ComputeUnit.MATRIX, "bf16")


def test_addmm_reads_its_bias_once() -> None:
    assert cost("aten::addmm", t(7), t(3, 5), t(5, 7), 1, 1).bytes == 4 * (7 + 15 + 35 + 21)
    assert cost("aten::addmm", t(3, 7, stride=(0, 1)), t(3, 5), t(5, 7), 1, 1).bytes == 4 * (7 + 15 + 35 + 21)


def test_bmm_and_baddbmm() -> None:
    assert cost("aten::bmm", t(4, 3, 5), t(4, 5, 7)).flops == 4 * 2 * 3 * 5 * 7
    found = cost("aten::baddbmm", t(4, 3, 7), t(4, 3, 5), t(4, 5, 7), 1, 1)
    assert found.flops == 4 * 2 * 3 * 5 * 7
    assert found.bytes == 4 * 4 * (21 + 15 + 35 + 21)


def test_a_complex_multiplication_and_addition_is_eight_flops() -> None:
    product = cost("aten::mm", t(4, 5, dtype="complex64"), t(5, 6, dtype="complex64"))
    assert product.flops == 8 * 4 * 5 * 6
    assert product.bytes == 8 * (4 * 5 + 5 * 6 + 4 * 6)


def test_vectors() -> None:
    assert cost("aten::mv", t(3, 5), t(5)).flops == 30
    assert cost("aten::addmv", t(3), t(3, 5), t(5), 1, 1).bytes == 4 * (3 + 15 + 5 + 3)
    found = cost("aten::dot", t(9), t(9))
    assert (found.flops, found.unit) == (18, ComputeUnit.VECTOR)


def test_scaled_mm_writes_the_dtype_it_is_asked_for() -> None:
    a, b = t(16, 32, dtype="fp8_e4m3"), t(32, 64, dtype="fp8_e4m3", stride=(1, 32))
    found = cost("aten::_scaled_mm", a, b, t(), t(), None, None, 15, False)  # 15 is bf16
    assert found.flops == 2 * 16 * 32 * 64
    assert found.bytes == 16 * 32 + 32 * 64 + 4 + 4 + 2 * 16 * 64
    assert found.dtype == "fp8"


def test_grouped_mm_does_not_depend_on_how_rows_are_split() -> None:
    a, offsets = t(12, 5, dtype="bf16"), t(3, dtype="int32")
    found = cost("aten::_grouped_mm", a, t(3, 5, 7, dtype="bf16"), offsets, None, None)
    assert found.flops == 2 * 12 * 5 * 7
    assert found.bytes == 2 * (60 + 105 + 84) + 12
    weight_gradient = cost("aten::_grouped_mm", t(5, 12, dtype="bf16"), t(12, 7, dtype="bf16"), offsets, None, None)
    assert weight_gradient.flops == 2 * 12 * 5 * 7
    assert weight_gradient.bytes == 2 * (60 + 84 + 3 * 35) + 12
    assert cost("aten::_grouped_mm", t(3, 4, 5), t(3, 5, 7), None, None, None).flops == 3 * 2 * 4 * 5 * 7


def test_recurrent_layer_counts_each_weight_matrix_for_each_row() -> None:
    # LSTM: 10 steps, batch 4, 16 inputs, 8 hidden: weights 32 x 16 and 32 x 8.
    args = (t(10, 4, 16), t(32, 16), t(32, 8), t(32), t(32))
    assert cost("aten::mkldnn_rnn_layer", *args).flops == 2 * 40 * (32 * 16 + 32 * 8)
    assert cost("aten::mkldnn_rnn_layer_backward", *args).flops == 4 * 40 * (32 * 16 + 32 * 8)
    assert cost("aten::_cudnn_rnn", args[0], args[1:], 4).flops == 2 * 40 * (32 * 16 + 32 * 8)


def test_fused_linear_layer() -> None:
    found = cost("mkldnn::_linear_pointwise", t(2, 3, 5), t(7, 5), t(7), "relu", (), None)
    assert found.flops == 2 * 6 * 5 * 7
    assert found.bytes == 4 * (30 + 35 + 7 + 42)


def test_sizes_that_do_not_fit_are_not_modeled() -> None:
    assert cost_op(OpCall("aten::mm", (t(3, 5), t(6, 7)))) is None
    assert cost_op(OpCall("aten::mm", ())) is None
    assert cost_op(OpCall("aten::mm", (t(3), t(3)))) is None
