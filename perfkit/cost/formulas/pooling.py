"""Pooling: one FLOP for every input element of every window, and one division for an average."""

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
    get_tensor,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import Flops, OpFamily

OPS = OpFamily(OpClass.OTHER)

_SOURCE = "pooling"


def _spread_values(values: Shape, dims: int, default: Shape) -> Shape:
    values = values or default
    return values * dims if len(values) == 1 else values


def _count_windows(args: Args, dims: int, dilation_at: int | None, ceil_at: int) -> tuple[int, int]:
    """(output elements, elements of a window) of pool(self, kernel_size, stride, padding, ..., ceil_mode, ...)."""
    x = get_tensor(args, 0)
    kernel = _spread_values(get_integers(args, 1), dims, ())
    if len(kernel) != dims or len(x.shape) < dims:
        raise UnmodeledError("kernel size does not fit the input")
    stride = _spread_values(get_integers(args, 2), dims, kernel)
    padding = _spread_values(get_integers(args, 3), dims, (0,))
    dilation = _spread_values(get_integers(args, dilation_at) if dilation_at is not None else (), dims, (1,))
    round_up = bool(get_integer(args, ceil_at))
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


def _make_max_pool(dims: int) -> Formula:
    """max_pool_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode) -> values, int64 positions."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        outputs, window = _count_windows(args, dims, 4, 5)
        return make_vector_cost(
            outputs * window, count_read_bytes(x) + count_output_bytes(outputs, x.dtype) + 8 * outputs, x.dtype, _SOURCE
        )

    return formula


@OPS.formula("max_pool2d_with_indices_backward max_pool3d_with_indices_backward")
def _cost_max_pool_backward(args: Args) -> OpCost:
    """max_pool_with_indices_backward(grad, self, kernel_size, stride, padding, dilation, ceil_mode, indices)."""
    grad, x, positions = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 7)
    nbytes = count_read_bytes(grad, positions) + count_output_bytes(numel(x), x.dtype)
    return make_vector_cost(numel(grad), nbytes, x.dtype, _SOURCE)


def _make_average_pool(dims: int) -> Formula:
    """avg_pool(self, kernel_size, stride, padding, ceil_mode, ...)."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        outputs, window = _count_windows(args, dims, None, 4)
        return make_vector_cost(
            outputs * (window + 1), count_read_bytes(x) + count_output_bytes(outputs, x.dtype), x.dtype, _SOURCE
        )

    return formula


def _make_average_pool_backward(dims: int) -> Formula:
    """avg_pool_backward(grad, self, kernel_size, ...): each gradient is divided, then added to its window."""

    def formula(args: Args) -> OpCost:
        grad, x = get_tensor(args, 0), get_tensor(args, 1)
        window = math.prod(_spread_values(get_integers(args, 2), dims, ()))
        nbytes = count_read_bytes(grad) + count_output_bytes(numel(x), x.dtype)
        return make_vector_cost(numel(grad) * (window + 1), nbytes, x.dtype, _SOURCE)

    return formula


def _make_adaptive(dims: int) -> Formula:
    """_adaptive_avg_pool(self, output_size): windows cover the input about once."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        outputs = math.prod(x.shape[:-dims]) * math.prod(get_integers(args, 1))
        return make_vector_cost(
            numel(x) + outputs, count_read_bytes(x) + count_output_bytes(outputs, x.dtype), x.dtype, _SOURCE
        )

    return formula


@OPS.formula("adaptive_avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward")
def _cost_adaptive_backward(args: Args) -> OpCost:
    """_adaptive_avg_pool_backward(grad, self)."""
    grad, x = get_tensor(args, 0), get_tensor(args, 1)
    return make_vector_cost(
        numel(grad) + numel(x), count_read_bytes(grad) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE
    )


def _make_adaptive_max(dims: int) -> Formula:
    """adaptive_max_pool(self, output_size) -> values, int64 positions."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        outputs = math.prod(x.shape[:-dims]) * math.prod(get_integers(args, 1))
        return make_vector_cost(
            numel(x), count_read_bytes(x) + count_output_bytes(outputs, x.dtype) + 8 * outputs, x.dtype, _SOURCE
        )

    return formula


@OPS.formula("adaptive_max_pool2d_backward adaptive_max_pool3d_backward")
def _cost_positions_backward(args: Args) -> OpCost:
    """adaptive_max_pool_backward(grad, self, indices): each gradient is added at its position."""
    grad, x, positions = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
    return make_vector_cost(
        numel(grad), count_read_bytes(grad, positions) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE
    )


def _make_unpool(dims: int) -> Formula:
    """max_unpool(self, indices, output_size, ...): values at their positions among zeros."""

    def formula(args: Args) -> OpCost:
        x, positions = get_tensor(args, 0), get_tensor(args, 1)
        outputs = math.prod(x.shape[:-dims]) * math.prod(get_integers(args, 2))
        return make_vector_cost(
            0, count_read_bytes(x, positions) + count_output_bytes(outputs, x.dtype), x.dtype, "data movement"
        )

    return formula


def _make_fractional(dims: int) -> Formula:
    """fractional_max_pool(self, kernel_size, output_size, random_samples) -> values, int64 positions."""

    def formula(args: Args) -> OpCost:
        x, kernel = get_tensor(args, 0), get_integers(args, 1)
        outputs = math.prod(x.shape[:-dims]) * math.prod(get_integers(args, 2))
        nbytes = count_read_bytes(x, get_tensor(args, 3)) + count_output_bytes(outputs, x.dtype) + 8 * outputs
        return make_vector_cost(outputs * math.prod(kernel), nbytes, x.dtype, _SOURCE)

    return formula


OPS.add("max_pool2d_with_indices", _make_max_pool(2))
OPS.add("max_pool3d_with_indices", _make_max_pool(3))
OPS.add("avg_pool2d", _make_average_pool(2))
OPS.add("avg_pool3d", _make_average_pool(3))
OPS.add("avg_pool2d_backward", _make_average_pool_backward(2))
OPS.add("avg_pool3d_backward", _make_average_pool_backward(3))
OPS.add("adaptive_max_pool2d", _make_adaptive_max(2))
OPS.add("adaptive_max_pool3d", _make_adaptive_max(3))
OPS.add("max_unpool2d", _make_unpool(2), flops=Flops.NONE)
OPS.add("max_unpool3d", _make_unpool(3), flops=Flops.NONE)
OPS.add("fractional_max_pool2d", _make_fractional(2))
OPS.add("fractional_max_pool3d", _make_fractional(3))
OPS.add("_adaptive_avg_pool2d", _make_adaptive(2))
OPS.add("_adaptive_avg_pool3d", _make_adaptive(3))
