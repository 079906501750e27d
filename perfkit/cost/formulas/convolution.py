"""Convolutions: 2 FLOPs for every product of an input element with a weight. Padding counts as input, bias is free."""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    Shape,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_integer,
    get_integers,
    get_optional_tensor,
    get_tensor,
    make_matrix_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import OpFamily
from perfkit.cost.calls.output_rules import make_convolved, make_like

OPS = OpFamily(OpClass.CONVOLUTION)

_SOURCE = "convolution"


def _spread_values(values: Shape, dims: int) -> Shape:
    """One value for every spatial dimension: torch allows a single value to stand for all."""
    if len(values) == 1:
        return values * dims
    if len(values) != dims:
        raise UnmodeledError("stride, padding or dilation have the wrong length")
    return values


def _count_forward_flops(weight: TensorArg, batch: int, positions: Shape) -> float:
    """Every weight is used once for every position of every sample (weight: out x in/groups x kernel)."""
    return 2.0 * batch * math.prod(positions) * numel(weight)


def _cost_convolution(
    x: TensorArg, weight: TensorArg, bias: TensorArg | None, stride: Shape, padding: Shape, dilation: Shape
) -> OpCost:
    dims = len(weight.shape) - 2
    if dims < 1 or len(x.shape) != dims + 2:
        raise UnmodeledError("input and weight of a convolution differ in rank")
    stride, padding, dilation = (_spread_values(values, dims) for values in (stride, padding, dilation))
    spatial = tuple(
        (x.shape[i + 2] + 2 * padding[i] - dilation[i] * (weight.shape[i + 2] - 1) - 1) // stride[i] + 1
        for i in range(dims)
    )
    nbytes = count_read_bytes(x, weight, bias) + count_output_bytes(
        x.shape[0] * weight.shape[0] * math.prod(spatial), x.dtype
    )
    return make_matrix_cost(_count_forward_flops(weight, x.shape[0], spatial), nbytes, x.dtype, _SOURCE)


def _cost_transposed(
    x: TensorArg, weight: TensorArg, bias: TensorArg | None, stride: Shape, padding: Shape, dilation: Shape,
    output_padding: Shape, groups: int,
) -> OpCost:  # fmt: skip
    """The weight of a transposed convolution is in x out/groups x kernel; its positions are those of the input."""
    dims = len(weight.shape) - 2
    if dims < 1 or len(x.shape) != dims + 2:
        raise UnmodeledError("input and weight of a convolution differ in rank")
    stride, padding, dilation = (_spread_values(values, dims) for values in (stride, padding, dilation))
    output_padding = _spread_values(output_padding, dims)
    spatial = tuple(
        (x.shape[i + 2] - 1) * stride[i]
        - 2 * padding[i]
        + dilation[i] * (weight.shape[i + 2] - 1)
        + output_padding[i]
        + 1
        for i in range(dims)
    )
    outputs = x.shape[0] * weight.shape[1] * groups * math.prod(spatial)
    nbytes = count_read_bytes(x, weight, bias) + count_output_bytes(outputs, x.dtype)
    return make_matrix_cost(_count_forward_flops(weight, x.shape[0], x.shape[2:]), nbytes, x.dtype, _SOURCE)


@OPS.formula("convolution _convolution convolution_overrideable")
def _cost_generic(args: Args) -> OpCost:
    """convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ...)."""
    x, weight, bias = get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 2)
    stride, padding, dilation = get_integers(args, 3), get_integers(args, 4), get_integers(args, 5)
    if get_integer(args, 6):
        return _cost_transposed(x, weight, bias, stride, padding, dilation, get_integers(args, 7), get_integer(args, 8))
    return _cost_convolution(x, weight, bias, stride, padding, dilation)


@OPS.formula("cudnn_convolution", outputs=make_convolved(2))
def _cost_cudnn(args: Args) -> OpCost:
    """cudnn_convolution(input, weight, padding, stride, dilation, groups, ...); before torch 1.8 a bias came third."""
    at = 2 if isinstance(args[2], tuple) and not isinstance(args[2], TensorArg) else 3
    bias = get_optional_tensor(args, 2)
    return _cost_convolution(
        get_tensor(args, 0),
        get_tensor(args, 1),
        bias,
        get_integers(args, at + 1),
        get_integers(args, at),
        get_integers(args, at + 2),
    )


@OPS.formula("cudnn_convolution_transpose")
def _cost_cudnn_transposed(args: Args) -> OpCost:
    """cudnn_convolution_transpose(input, weight, padding, output_padding, stride, dilation, groups, ...)."""
    x, weight = get_tensor(args, 0), get_tensor(args, 1)
    return _cost_transposed(
        x,
        weight,
        None,
        get_integers(args, 4),
        get_integers(args, 2),
        get_integers(args, 5),
        get_integers(args, 3),
        get_integer(args, 6),
    )


@OPS.formula("mkldnn_convolution miopen_convolution", outputs=make_convolved(3))
@OPS.formula("mkldnn::_convolution_pointwise miopen_depthwise_convolution")
def _cost_padding_first(args: Args) -> OpCost:
    """mkldnn_convolution and miopen_convolution(input, weight, bias, padding, stride, dilation, groups, ...)."""
    x, weight, bias = get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 2)
    return _cost_convolution(x, weight, bias, get_integers(args, 4), get_integers(args, 3), get_integers(args, 5))


@OPS.formula("cudnn_convolution_relu")
def _cost_cudnn_relu(args: Args) -> OpCost:
    """cudnn_convolution_relu(input, weight, bias, stride, padding, dilation, groups)."""
    x, weight, bias = get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 2)
    return _cost_convolution(x, weight, bias, get_integers(args, 3), get_integers(args, 4), get_integers(args, 5))


@OPS.formula("_slow_conv2d_forward slow_conv3d_forward")
def _cost_slow(args: Args) -> OpCost:
    """_slow_conv2d_forward, slow_conv3d_forward(input, weight, kernel_size, bias, stride, padding)."""
    x, weight, bias = get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 3)
    return _cost_convolution(x, weight, bias, get_integers(args, 4), get_integers(args, 5), (1,))


@OPS.formula("_conv_depthwise2d conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d")
def _cost_depthwise(args: Args) -> OpCost:
    """_conv_depthwise2d, slow_conv_dilated2d(input, weight, kernel_size, bias, stride, padding, dilation)."""
    x, weight, bias = get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 3)
    return _cost_convolution(x, weight, bias, get_integers(args, 4), get_integers(args, 5), get_integers(args, 6))


@OPS.formula("convolution_backward", outputs=make_like(1, 2))
@OPS.formula("convolution_backward_overrideable")
def _cost_backward(args: Args) -> OpCost:
    """convolution_backward(grad_out, input, weight, bias_sizes, stride, padding, dilation, transposed,
    output_padding, groups, output_mask).

    The gradients of the input and of the weight each cost as much as the forward pass; only those that
    `output_mask` asks for are computed.
    """
    mask = get_integers(args, 10)
    if len(mask) != 3:
        raise UnmodeledError("mask of the three gradients missing")
    return _cost_gradients(
        get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2), mask, bool(get_integer(args, 7))
    )


@OPS.formula("miopen_convolution_transpose")
def _cost_padding_first_transposed(args: Args) -> OpCost:
    """miopen_convolution_transpose(input, weight, bias, padding, output_padding, stride, dilation, groups, ...)."""
    x, weight, bias = get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 2)
    padding, output_padding, stride, dilation = (get_integers(args, index) for index in range(3, 7))
    return _cost_transposed(x, weight, bias, stride, padding, dilation, output_padding, get_integer(args, 7))


@OPS.formula("slow_conv_transpose2d slow_conv_transpose3d")
def _cost_slow_transposed(args: Args) -> OpCost:
    """slow_conv_transpose(input, weight, kernel_size, bias, stride, padding, output_padding, dilation)."""
    x, weight, bias = get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 3)
    stride, padding, output_padding, dilation = (get_integers(args, index) for index in range(4, 8))
    return _cost_transposed(x, weight, bias, stride, padding, dilation, output_padding, 1)


@OPS.formula("cudnn_convolution_add_relu")
def _cost_add_relu(args: Args) -> OpCost:
    """cudnn_convolution_add_relu(input, weight, z, alpha, bias, stride, padding, dilation, groups): z is read, too."""
    x, weight, z, bias = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2), get_optional_tensor(args, 4)
    plain = _cost_convolution(x, weight, bias, get_integers(args, 5), get_integers(args, 6), get_integers(args, 7))
    return plain._replace(bytes=None if plain.bytes is None else plain.bytes + count_read_bytes(z))


@OPS.formula("conv_tbc")
def _cost_tbc(args: Args) -> OpCost:
    """conv_tbc(self (time, batch, in), weight (kernel, in, out), bias, pad)."""
    x, weight, bias = get_tensor(args, 0, 3), get_tensor(args, 1, 3), get_optional_tensor(args, 2)
    steps = x.shape[0] + 2 * get_integer(args, 3) - weight.shape[0] + 1
    outputs = steps * x.shape[1] * weight.shape[2]
    nbytes = count_read_bytes(x, weight, bias) + count_output_bytes(outputs, x.dtype)
    return make_matrix_cost(_count_forward_flops(weight, x.shape[1], (steps,)), nbytes, x.dtype, _SOURCE)


def _cost_gradients(grad: TensorArg, x: TensorArg, weight: TensorArg, mask: Shape, transposed: bool) -> OpCost:
    """The gradients that the mask asks for: of the input, of the weight, of the bias."""
    if len(x.shape) != len(weight.shape) or len(grad.shape) != len(weight.shape):
        raise UnmodeledError("arguments of convolution backward do not match")
    positions = x.shape[2:] if transposed else grad.shape[2:]
    nbytes = (
        count_read_bytes(grad)
        + (count_read_bytes(weight) + count_output_bytes(numel(x), x.dtype) if mask[0] else 0.0)
        + (count_read_bytes(x) + count_output_bytes(numel(weight), weight.dtype) if mask[1] else 0.0)
        + (count_output_bytes(grad.shape[1], grad.dtype) if mask[2] else 0.0)
    )
    products = bool(mask[0]) + bool(mask[1])
    return make_matrix_cost(products * _count_forward_flops(weight, x.shape[0], positions), nbytes, x.dtype, _SOURCE)


def _make_old_backward(transposed: bool) -> Formula:
    """cudnn_convolution_backward, miopen_...(input, grad_output, weight, ..., output_mask), before torch 1.11; the
    mask has no bias where cuDNN leaves it to another op."""

    def formula(args: Args) -> OpCost:
        mask = get_integers(args, len(args) - 1)
        return _cost_gradients(
            get_tensor(args, 1), get_tensor(args, 0), get_tensor(args, 2), (*mask, False)[:3], transposed
        )

    return formula


@OPS.formula("_slow_conv2d_backward")
def _cost_slow_backward(args: Args) -> OpCost:
    """_slow_conv2d_backward(grad_output, self, weight, kernel_size, stride, padding, output_mask)."""
    mask = get_integers(args, 6) if len(args) > 6 and isinstance(args[6], tuple) else (True, True, True)
    return _cost_gradients(get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2), mask, transposed=False)


OPS.add(
    "cudnn_convolution_backward miopen_convolution_backward miopen_depthwise_convolution_backward",
    _make_old_backward(transposed=False),
)
OPS.add(
    "cudnn_convolution_transpose_backward miopen_convolution_transpose_backward", _make_old_backward(transposed=True)
)
