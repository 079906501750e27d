"""Pooling: one FLOP for every input element of every window, and one division for an average."""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    Shape,
    UnmodelledError,
    integer,
    integers,
    numel,
    out_bytes,
    read_bytes,
    tensor,
    vector,
)
from perfkit.cost.call import OpCost

_SOURCE = "pooling"


def _spread(values: Shape, dims: int, default: Shape) -> Shape:
    values = values or default
    return values * dims if len(values) == 1 else values


def _windows(args: Args, dims: int, dilation_at: int | None, ceil_at: int) -> tuple[int, int]:
    """(output elements, elements of a window) of pool(self, kernel_size, stride, padding, ..., ceil_mode, ...)."""
    x = tensor(args, 0)
    kernel = _spread(integers(args, 1), dims, ())
    if len(kernel) != dims or len(x.shape) < dims:
        raise UnmodelledError("kernel size does not fit the input")
    stride = _spread(integers(args, 2), dims, kernel)
    padding = _spread(integers(args, 3), dims, (0,))
    dilation = _spread(integers(args, dilation_at) if dilation_at is not None else (), dims, (1,))
    round_up = bool(integer(args, ceil_at))
    outputs = math.prod(x.shape[:-dims])
    for axis in range(dims):
        size = x.shape[axis - dims]
        room = size + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1
        windows = (-(-room // stride[axis]) if round_up else room // stride[axis]) + 1
        # A last window that would start in the padding on the right is dropped.
        if round_up and (windows - 1) * stride[axis] >= size + padding[axis]:
            windows -= 1
        outputs *= windows
    return outputs, math.prod(kernel)


def _max_pool(dims: int) -> Formula:
    """max_pool_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode) -> values, int64 positions."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        outputs, window = _windows(args, dims, 4, 5)
        return vector(outputs * window, read_bytes(x) + out_bytes(outputs, x.dtype) + 8 * outputs, x.dtype, _SOURCE)

    return formula


def _max_pool_backward(args: Args) -> OpCost:
    """max_pool_with_indices_backward(grad, self, kernel_size, stride, padding, dilation, ceil_mode, indices)."""
    grad, x, positions = tensor(args, 0), tensor(args, 1), tensor(args, 7)
    nbytes = read_bytes(grad, positions) + out_bytes(numel(x), x.dtype)
    return vector(numel(grad), nbytes, x.dtype, _SOURCE)


def _average_pool(dims: int) -> Formula:
    """avg_pool(self, kernel_size, stride, padding, ceil_mode, ...)."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        outputs, window = _windows(args, dims, None, 4)
        return vector(outputs * (window + 1), read_bytes(x) + out_bytes(outputs, x.dtype), x.dtype, _SOURCE)

    return formula


def _average_pool_backward(dims: int) -> Formula:
    """avg_pool_backward(grad, self, kernel_size, ...): each gradient is divided, then added to its window."""

    def formula(args: Args) -> OpCost:
        grad, x = tensor(args, 0), tensor(args, 1)
        window = math.prod(_spread(integers(args, 2), dims, ()))
        nbytes = read_bytes(grad) + out_bytes(numel(x), x.dtype)
        return vector(numel(grad) * (window + 1), nbytes, x.dtype, _SOURCE)

    return formula


def _adaptive(dims: int) -> Formula:
    """_adaptive_avg_pool(self, output_size): windows cover the input about once."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        outputs = math.prod(x.shape[:-dims]) * math.prod(integers(args, 1))
        return vector(numel(x) + outputs, read_bytes(x) + out_bytes(outputs, x.dtype), x.dtype, _SOURCE)

    return formula


def _adaptive_backward(args: Args) -> OpCost:
    """_adaptive_avg_pool_backward(grad, self)."""
    grad, x = tensor(args, 0), tensor(args, 1)
    return vector(numel(grad) + numel(x), read_bytes(grad) + out_bytes(numel(x), x.dtype), x.dtype, _SOURCE)


def _adaptive_max(dims: int) -> Formula:
    """adaptive_max_pool(self, output_size) -> values, int64 positions."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        outputs = math.prod(x.shape[:-dims]) * math.prod(integers(args, 1))
        return vector(numel(x), read_bytes(x) + out_bytes(outputs, x.dtype) + 8 * outputs, x.dtype, _SOURCE)

    return formula


def _positions_backward(args: Args) -> OpCost:
    """adaptive_max_pool_backward(grad, self, indices): each gradient is added at its position."""
    grad, x, positions = tensor(args, 0), tensor(args, 1), tensor(args, 2)
    return vector(numel(grad), read_bytes(grad, positions) + out_bytes(numel(x), x.dtype), x.dtype, _SOURCE)


def _unpool(dims: int) -> Formula:
    """max_unpool(self, indices, output_size, ...): values at their positions among zeros."""

    def formula(args: Args) -> OpCost:
        x, positions = tensor(args, 0), tensor(args, 1)
        outputs = math.prod(x.shape[:-dims]) * math.prod(integers(args, 2))
        return vector(0, read_bytes(x, positions) + out_bytes(outputs, x.dtype), x.dtype, "data movement")

    return formula


def _fractional(dims: int) -> Formula:
    """fractional_max_pool(self, kernel_size, output_size, random_samples) -> values, int64 positions."""

    def formula(args: Args) -> OpCost:
        x, kernel = tensor(args, 0), integers(args, 1)
        outputs = math.prod(x.shape[:-dims]) * math.prod(integers(args, 2))
        nbytes = read_bytes(x, tensor(args, 3)) + out_bytes(outputs, x.dtype) + 8 * outputs
        return vector(outputs * math.prod(kernel), nbytes, x.dtype, _SOURCE)

    return formula


FORMULAS: dict[str, Formula] = {
    "aten::max_pool2d_with_indices": _max_pool(2),
    "aten::max_pool3d_with_indices": _max_pool(3),
    "aten::max_pool2d_with_indices_backward": _max_pool_backward,
    "aten::max_pool3d_with_indices_backward": _max_pool_backward,
    "aten::avg_pool2d": _average_pool(2),
    "aten::avg_pool3d": _average_pool(3),
    "aten::avg_pool2d_backward": _average_pool_backward(2),
    "aten::avg_pool3d_backward": _average_pool_backward(3),
    "aten::adaptive_max_pool2d": _adaptive_max(2),
    "aten::adaptive_max_pool3d": _adaptive_max(3),
    "aten::adaptive_max_pool2d_backward": _positions_backward,
    "aten::adaptive_max_pool3d_backward": _positions_backward,
    "aten::max_unpool2d": _unpool(2),
    "aten::max_unpool3d": _unpool(3),
    "aten::fractional_max_pool2d": _fractional(2),
    "aten::fractional_max_pool3d": _fractional(3),
    "aten::adaptive_avg_pool3d_backward": _adaptive_backward,
    "aten::_adaptive_avg_pool2d": _adaptive(2),
    "aten::_adaptive_avg_pool3d": _adaptive(3),
    "aten::_adaptive_avg_pool2d_backward": _adaptive_backward,
    "aten::_adaptive_avg_pool3d_backward": _adaptive_backward,
}
