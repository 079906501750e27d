"""Convolutions against hand calculations."""

import math

import pytest

from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "fp32") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def cost(name: str, *args: object) -> OpCost:
    result = cost_op(OpCall(name, args))  # type: ignore[arg-type]
    assert result is not None
    return result


# 8 images of 3 x 32 x 32, 16 filters of 3 x 5 x 5, stride 2, padding 2: 16 x 16 positions.
X, W, B = t(8, 3, 32, 32), t(16, 3, 5, 5), t(16)
FLOPS = 2 * 8 * 16 * 16 * (16 * 3 * 5 * 5)
BYTES = 4 * (8 * 3 * 32 * 32 + 16 * 3 * 5 * 5 + 16 + 8 * 16 * 16 * 16)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten::convolution", (X, W, B, (2, 2), (2, 2), (1, 1), False, (0, 0), 1)),
        ("aten::_convolution", (X, W, B, (2,), (2,), (1,), False, (0,), 1, False, False, True, True)),
        ("aten::mkldnn_convolution", (X, W, B, (2, 2), (2, 2), (1, 1), 1)),
        ("aten::miopen_convolution", (X, W, B, (2, 2), (2, 2), (1, 1), 1, False, False)),
        ("aten::cudnn_convolution_relu", (X, W, B, (2, 2), (2, 2), (1, 1), 1)),
        ("aten::_slow_conv2d_forward", (X, W, (5, 5), B, (2, 2), (2, 2))),
    ],
)
def test_the_same_convolution_under_every_name(name: str, args: tuple[object, ...]) -> None:
    found = cost(name, *args)
    assert found.flops == FLOPS
    assert found.bytes == BYTES


def test_cudnn_order_of_arguments() -> None:
    # cuDNN takes padding before stride, and no bias: padding 0, stride 3 gives (32 - 5) // 3 + 1 = 10 positions.
    found = cost("aten::cudnn_convolution", X, W, (0, 0), (3, 3), (1, 1), 1, True, False, True)
    assert found.flops == 2 * 8 * 10 * 10 * (16 * 3 * 5 * 5)


def test_groups_and_dilation() -> None:
    # Depthwise: one 3 x 3 filter for each of 32 channels; dilation 2 covers 5, so 28 positions of 32.
    found = cost("aten::convolution", t(2, 32, 32, 32), t(32, 1, 3, 3), None, (1, 1), (0, 0), (2, 2), False, (0, 0), 32)
    assert found.flops == 2 * 2 * 28 * 28 * (32 * 1 * 3 * 3)
    found = cost("aten::_conv_depthwise2d", t(2, 32, 32, 32), t(32, 1, 3, 3), (3, 3), None, (1, 1), (0, 0), (2, 2))
    assert found.flops == 2 * 2 * 28 * 28 * (32 * 1 * 3 * 3)


def test_transposed_convolution() -> None:
    # 6 x 6 inputs, stride 2, kernel 4, padding 1 give (6 - 1) * 2 - 2 + 3 + 0 + 1 = 12 x 12 outputs.
    x, weight = t(2, 8, 6, 6), t(8, 5, 4, 4)
    found = cost("aten::convolution", x, weight, None, (2, 2), (1, 1), (1, 1), True, (0, 0), 1)
    assert found.flops == 2 * 2 * 6 * 6 * (8 * 5 * 4 * 4)
    assert found.bytes == 4 * (2 * 8 * 36 + 8 * 5 * 16 + 2 * 5 * 144)
    same = cost("aten::cudnn_convolution_transpose", x, weight, (1, 1), (0, 0), (2, 2), (1, 1), 1, False, False, True)
    assert (same.flops, same.bytes) == (found.flops, found.bytes)


GRAD = t(8, 16, 16, 16)


@pytest.mark.parametrize("mask", [(True, True, True), (False, True, False), (True, False, False), (False, False, True)])
def test_backward_computes_only_what_is_asked_for(mask: tuple[bool, bool, bool]) -> None:
    args = (GRAD, X, W, (16,), (2, 2), (2, 2), (1, 1), False, (0, 0), 1, mask)
    found = cost("aten::convolution_backward", *args)
    assert found.flops == FLOPS * (mask[0] + mask[1])
    x_bytes, w_bytes, grad_bytes = 4 * 8 * 3 * 32 * 32, 4 * 16 * 3 * 25, 4 * 8 * 16 * 256
    expected = grad_bytes + mask[0] * (w_bytes + x_bytes) + mask[1] * (x_bytes + w_bytes) + mask[2] * 16 * 4
    assert found.bytes == expected


def test_backward_of_groups_is_not_multiplied_by_them() -> None:
    # torch's registry counts the weight gradient `groups` times too high (32 here).
    x, grad = t(2, 32, 30, 30), t(2, 32, 28, 28)
    args = (grad, x, t(32, 1, 3, 3), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 32, (True, True, False))
    assert cost("aten::convolution_backward", *args).flops == 2 * (2 * 2 * 28 * 28 * 32 * 9)


def test_backward_of_transposed() -> None:
    args = (t(2, 5, 12, 12), t(2, 8, 6, 6), t(8, 5, 4, 4), None, (2, 2), (1, 1), (1, 1), True, (0, 0), 1, (True,) * 3)
    assert cost("aten::convolution_backward", *args).flops == 2 * (2 * 2 * 6 * 6 * 8 * 5 * 16)


def test_lost_arguments_are_not_modeled() -> None:
    assert cost_op(OpCall("aten::convolution", (X, W, B, None, None, None, None, None, None))) is None
