"""Convolutions: 2 FLOPs for every product of an input element with a weight. Padding counts as input, bias is free."""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    Shape,
    UnmodelledError,
    integer,
    integers,
    matrix,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    tensor,
)
from perfkit.cost.call import OpCost, TensorArg

_SOURCE = "convolution"


def _spread(values: Shape, dims: int) -> Shape:
    """One value for every spatial dimension: torch allows a single value to stand for all."""
    if len(values) == 1:
        return values * dims
    if len(values) != dims:
        raise UnmodelledError("stride, padding or dilation of the wrong length")
    return values


def _forward_flops(weight: TensorArg, batch: int, positions: Shape) -> float:
    """Every weight is used once for every position of every sample (weight: out x in/groups x kernel)."""
    return 2.0 * batch * math.prod(positions) * numel(weight)


def _convolution(
    x: TensorArg, weight: TensorArg, bias: TensorArg | None, stride: Shape, padding: Shape, dilation: Shape
) -> OpCost:
    dims = len(weight.shape) - 2
    if dims < 1 or len(x.shape) != dims + 2:
        raise UnmodelledError("input and weight of a convolution differ in rank")
    stride, padding, dilation = (_spread(values, dims) for values in (stride, padding, dilation))
    spatial = tuple(
        (x.shape[i + 2] + 2 * padding[i] - dilation[i] * (weight.shape[i + 2] - 1) - 1) // stride[i] + 1
        for i in range(dims)
    )
    nbytes = read_bytes(x, weight, bias) + out_bytes(x.shape[0] * weight.shape[0] * math.prod(spatial), x.dtype)
    return matrix(_forward_flops(weight, x.shape[0], spatial), nbytes, x.dtype, _SOURCE)


def _transposed(
    x: TensorArg, weight: TensorArg, bias: TensorArg | None, stride: Shape, padding: Shape, dilation: Shape,
    output_padding: Shape, groups: int,
) -> OpCost:  # fmt: skip
    """The weight of a transposed convolution is in x out/groups x kernel; its positions are those of the input."""
    dims = len(weight.shape) - 2
    if dims < 1 or len(x.shape) != dims + 2:
        raise UnmodelledError("input and weight of a convolution differ in rank")
    stride, padding, dilation = (_spread(values, dims) for values in (stride, padding, dilation))
    output_padding = _spread(output_padding, dims)
    spatial = tuple(
        (x.shape[i + 2] - 1) * stride[i]
        - 2 * padding[i]
        + dilation[i] * (weight.shape[i + 2] - 1)
        + output_padding[i]
        + 1
        for i in range(dims)
    )
    outputs = x.shape[0] * weight.shape[1] * groups * math.prod(spatial)
    nbytes = read_bytes(x, weight, bias) + out_bytes(outputs, x.dtype)
    return matrix(_forward_flops(weight, x.shape[0], x.shape[2:]), nbytes, x.dtype, _SOURCE)


def _generic(args: Args) -> OpCost:
    """convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ...)."""
    x, weight, bias = tensor(args, 0), tensor(args, 1), optional_tensor(args, 2)
    stride, padding, dilation = integers(args, 3), integers(args, 4), integers(args, 5)
    if integer(args, 6):
        return _transposed(x, weight, bias, stride, padding, dilation, integers(args, 7), integer(args, 8))
    return _convolution(x, weight, bias, stride, padding, dilation)


def _cudnn(args: Args) -> OpCost:
    """cudnn_convolution(input, weight, padding, stride, dilation, groups, ...); before torch 1.8 a bias came third."""
    at = 2 if isinstance(args[2], tuple) and not isinstance(args[2], TensorArg) else 3
    bias = optional_tensor(args, 2)
    return _convolution(
        tensor(args, 0), tensor(args, 1), bias, integers(args, at + 1), integers(args, at), integers(args, at + 2)
    )


def _cudnn_transposed(args: Args) -> OpCost:
    """cudnn_convolution_transpose(input, weight, padding, output_padding, stride, dilation, groups, ...)."""
    x, weight = tensor(args, 0), tensor(args, 1)
    return _transposed(
        x, weight, None, integers(args, 4), integers(args, 2), integers(args, 5), integers(args, 3), integer(args, 6)
    )


def _padding_first(args: Args) -> OpCost:
    """mkldnn_convolution and miopen_convolution(input, weight, bias, padding, stride, dilation, groups, ...)."""
    x, weight, bias = tensor(args, 0), tensor(args, 1), optional_tensor(args, 2)
    return _convolution(x, weight, bias, integers(args, 4), integers(args, 3), integers(args, 5))


def _cudnn_relu(args: Args) -> OpCost:
    """cudnn_convolution_relu(input, weight, bias, stride, padding, dilation, groups)."""
    x, weight, bias = tensor(args, 0), tensor(args, 1), optional_tensor(args, 2)
    return _convolution(x, weight, bias, integers(args, 3), integers(args, 4), integers(args, 5))


def _slow(args: Args) -> OpCost:
    """_slow_conv2d_forward, slow_conv3d_forward(input, weight, kernel_size, bias, stride, padding)."""
    x, weight, bias = tensor(args, 0), tensor(args, 1), optional_tensor(args, 3)
    return _convolution(x, weight, bias, integers(args, 4), integers(args, 5), (1,))


def _depthwise(args: Args) -> OpCost:
    """_conv_depthwise2d, slow_conv_dilated2d(input, weight, kernel_size, bias, stride, padding, dilation)."""
    x, weight, bias = tensor(args, 0), tensor(args, 1), optional_tensor(args, 3)
    return _convolution(x, weight, bias, integers(args, 4), integers(args, 5), integers(args, 6))


def _backward(args: Args) -> OpCost:
    """convolution_backward(grad_out, input, weight, bias_sizes, stride, padding, dilation, transposed,
    output_padding, groups, output_mask).

    The gradients of the input and of the weight each cost as much as the forward pass; only those that
    `output_mask` asks for are computed.
    """
    mask = integers(args, 10)
    if len(mask) != 3:
        raise UnmodelledError("no mask of the three gradients")
    return _gradients(tensor(args, 0), tensor(args, 1), tensor(args, 2), mask, bool(integer(args, 7)))


def _padding_first_transposed(args: Args) -> OpCost:
    """miopen_convolution_transpose(input, weight, bias, padding, output_padding, stride, dilation, groups, ...)."""
    x, weight, bias = tensor(args, 0), tensor(args, 1), optional_tensor(args, 2)
    padding, output_padding, stride, dilation = (integers(args, index) for index in range(3, 7))
    return _transposed(x, weight, bias, stride, padding, dilation, output_padding, integer(args, 7))


def _slow_transposed(args: Args) -> OpCost:
    """slow_conv_transpose(input, weight, kernel_size, bias, stride, padding, output_padding, dilation)."""
    x, weight, bias = tensor(args, 0), tensor(args, 1), optional_tensor(args, 3)
    stride, padding, output_padding, dilation = (integers(args, index) for index in range(4, 8))
    return _transposed(x, weight, bias, stride, padding, dilation, output_padding, 1)


def _add_relu(args: Args) -> OpCost:
    """cudnn_convolution_add_relu(input, weight, z, alpha, bias, stride, padding, dilation, groups): z is read, too."""
    x, weight, z, bias = tensor(args, 0), tensor(args, 1), tensor(args, 2), optional_tensor(args, 4)
    plain = _convolution(x, weight, bias, integers(args, 5), integers(args, 6), integers(args, 7))
    return plain._replace(bytes=None if plain.bytes is None else plain.bytes + read_bytes(z))


def _tbc(args: Args) -> OpCost:
    """conv_tbc(self (time, batch, in), weight (kernel, in, out), bias, pad)."""
    x, weight, bias = tensor(args, 0, 3), tensor(args, 1, 3), optional_tensor(args, 2)
    steps = x.shape[0] + 2 * integer(args, 3) - weight.shape[0] + 1
    outputs = steps * x.shape[1] * weight.shape[2]
    nbytes = read_bytes(x, weight, bias) + out_bytes(outputs, x.dtype)
    return matrix(_forward_flops(weight, x.shape[1], (steps,)), nbytes, x.dtype, _SOURCE)


def _gradients(grad: TensorArg, x: TensorArg, weight: TensorArg, mask: Shape, transposed: bool) -> OpCost:
    """The gradients that the mask asks for: of the input, of the weight, of the bias."""
    if len(x.shape) != len(weight.shape) or len(grad.shape) != len(weight.shape):
        raise UnmodelledError("arguments of a convolution's backward do not fit together")
    positions = x.shape[2:] if transposed else grad.shape[2:]
    nbytes = (
        read_bytes(grad)
        + (read_bytes(weight) + out_bytes(numel(x), x.dtype) if mask[0] else 0.0)
        + (read_bytes(x) + out_bytes(numel(weight), weight.dtype) if mask[1] else 0.0)
        + (out_bytes(grad.shape[1], grad.dtype) if mask[2] else 0.0)
    )
    products = bool(mask[0]) + bool(mask[1])
    return matrix(products * _forward_flops(weight, x.shape[0], positions), nbytes, x.dtype, _SOURCE)


def _old_backward(transposed: bool) -> Formula:
    """cudnn_convolution_backward, miopen_...(input, grad_output, weight, ..., output_mask), before torch 1.11; the
    mask has no bias where cuDNN leaves it to another op."""

    def formula(args: Args) -> OpCost:
        mask = integers(args, len(args) - 1)
        return _gradients(tensor(args, 1), tensor(args, 0), tensor(args, 2), (*mask, False)[:3], transposed)

    return formula


def _slow_backward(args: Args) -> OpCost:
    """_slow_conv2d_backward(grad_output, self, weight, kernel_size, stride, padding, output_mask)."""
    mask = integers(args, 6) if len(args) > 6 and isinstance(args[6], tuple) else (True, True, True)
    return _gradients(tensor(args, 0), tensor(args, 1), tensor(args, 2), mask, transposed=False)


FORMULAS: dict[str, Formula] = {
    "aten::convolution": _generic,
    "aten::_convolution": _generic,
    "aten::convolution_overrideable": _generic,
    "aten::cudnn_convolution": _cudnn,
    "aten::cudnn_convolution_transpose": _cudnn_transposed,
    "aten::cudnn_convolution_relu": _cudnn_relu,
    "aten::mkldnn_convolution": _padding_first,
    "mkldnn::_convolution_pointwise": _padding_first,
    "aten::miopen_convolution": _padding_first,
    "aten::miopen_depthwise_convolution": _padding_first,
    "aten::_slow_conv2d_forward": _slow,
    "aten::slow_conv3d_forward": _slow,
    "aten::_conv_depthwise2d": _depthwise,
    "aten::conv_depthwise3d": _depthwise,
    "aten::slow_conv_dilated2d": _depthwise,
    "aten::slow_conv_dilated3d": _depthwise,
    "aten::slow_conv_transpose2d": _slow_transposed,
    "aten::slow_conv_transpose3d": _slow_transposed,
    "aten::miopen_convolution_transpose": _padding_first_transposed,
    "aten::cudnn_convolution_add_relu": _add_relu,
    "aten::conv_tbc": _tbc,
    "aten::cudnn_convolution_backward": _old_backward(transposed=False),
    "aten::cudnn_convolution_transpose_backward": _old_backward(transposed=True),
    "aten::miopen_convolution_backward": _old_backward(transposed=False),
    "aten::miopen_depthwise_convolution_backward": _old_backward(transposed=False),
    "aten::miopen_convolution_transpose_backward": _old_backward(transposed=True),
    "aten::_slow_conv2d_backward": _slow_backward,
    "aten::convolution_backward": _backward,
    "aten::convolution_backward_overrideable": _backward,
}
