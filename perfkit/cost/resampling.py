"""Images, volumes and signals resized, sampled, padded and unfolded.

An output of an interpolation is a weighted sum of 2, 4, 8 or 16 neighbours: as many products, and one sum less. Its
backward pass adds as many products into the input's gradient. The weights themselves, and indices, are not counted.
"""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    Shape,
    UnmodelledError,
    distinct_bytes,
    integer,
    integers,
    numel,
    out_bytes,
    read_bytes,
    tensor,
    vector,
)
from perfkit.cost.call import OpCost, TensorArg

_SOURCE = "resampling"

# Neighbours that an output depends on.
_NEIGHBOURS = {
    "upsample_nearest": 1,
    "_upsample_nearest_exact": 1,
    "upsample_linear": 2,
    "upsample_bilinear": 4,
    "_upsample_bilinear": 4,
    "upsample_trilinear": 8,
    "upsample_bicubic": 16,
    "_upsample_bicubic": 16,
    "_upsample_lanczos": 36,
}
_NAMES = (
    *(f"upsample_nearest{dims}d" for dims in (1, 2, 3)),
    *(f"_upsample_nearest_exact{dims}d" for dims in (1, 2, 3)),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
    *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"),
)


def _weighted(neighbours: int) -> int:
    return 2 * neighbours - 1 if neighbours > 1 else 0


def _output(x: TensorArg, args: Args) -> Shape:
    """The spatial size: given, or the input's times the factors, which are the first list of numbers after it."""
    dims = len(x.shape) - 2
    if isinstance(args[1], tuple) and not isinstance(args[1], TensorArg):
        return integers(args, 1)
    for value in args[2:]:
        if isinstance(value, tuple) and len(value) == dims:
            factors = [factor for factor in value if isinstance(factor, int | float)]
            if len(factors) == dims:
                return tuple(math.floor(size * factor) for size, factor in zip(x.shape[2:], factors, strict=True))
    raise UnmodelledError("neither an output size nor factors")


def _upsample(neighbours: int) -> Formula:
    """upsample(self, output_size, ...), also by factors (`.vec`). Shrinking leaves out what nobody reads."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        outputs = math.prod(x.shape[:2]) * math.prod(_output(x, args))
        reads = min(distinct_bytes(x), out_bytes(neighbours * outputs, x.dtype))
        return vector(_weighted(neighbours) * outputs, reads + out_bytes(outputs, x.dtype), x.dtype, _SOURCE)

    return formula


def _upsample_backward(neighbours: int) -> Formula:
    """upsample_backward(grad_output, output_size, input_size, ...)."""

    def formula(args: Args) -> OpCost:
        grad, inputs = tensor(args, 0), math.prod(integers(args, 2))
        flops = (2 * neighbours if neighbours > 1 else 1) * numel(grad)
        return vector(flops, read_bytes(grad) + out_bytes(inputs, grad.dtype), grad.dtype, _SOURCE)

    return formula


_NEAREST, _BICUBIC = 1, 2


def _sampled_neighbours(mode: int, dims: int) -> int:
    return {_NEAREST: 1, _BICUBIC: 16}.get(mode, 1 << dims)


def _grid_sampler(mode_at: int | None) -> Formula:
    """grid_sampler(input, grid, interpolation_mode, ...): one position for every spatial output."""

    def formula(args: Args) -> OpCost:
        x, grid = tensor(args, 0), tensor(args, 1)
        neighbours = _sampled_neighbours(integer(args, mode_at) if mode_at else 0, grid.shape[-1])
        outputs = math.prod(grid.shape[:-1]) * x.shape[1]
        reads = min(distinct_bytes(x), out_bytes(neighbours * outputs, x.dtype))
        nbytes = reads + read_bytes(grid) + out_bytes(outputs, x.dtype)
        return vector(_weighted(neighbours) * outputs, nbytes, x.dtype, _SOURCE)

    return formula


def _grid_sampler_backward(args: Args) -> OpCost:
    """grid_sampler_backward(grad_output, input, grid, mode, padding, align, output_mask): both gradients."""
    grad, x, grid = tensor(args, 0), tensor(args, 1), tensor(args, 2)
    neighbours = _sampled_neighbours(args[3] if isinstance(args[3], int) else 0, grid.shape[-1])
    mask = integers(args, 6) if len(args) > 6 and isinstance(args[6], tuple) else (True, True)
    outputs = (out_bytes(numel(x), x.dtype) if mask[0] else 0.0) + out_bytes(numel(grid), grid.dtype)
    flops = 2 * neighbours * numel(grad) * (bool(mask[0]) + 1)
    return vector(flops, read_bytes(grad, x, grid) + outputs, x.dtype, _SOURCE)


def _affine_grid(args: Args) -> OpCost:
    """affine_grid_generator(theta, size, ...): each position times a (dims, dims + 1) matrix."""
    theta, size = tensor(args, 0, 3), integers(args, 1)
    positions, dims = size[0] * math.prod(size[2:]), theta.shape[1]
    nbytes = read_bytes(theta) + out_bytes(positions * dims, theta.dtype)
    return vector(2 * positions * dims * (dims + 1), nbytes, theta.dtype, _SOURCE)


def _pad(args: Args) -> OpCost:
    """constant_pad_nd, reflection_pad, replication_pad(self, pad, ...): (before, after) from the last dimension."""
    x, pad = tensor(args, 0), integers(args, 1)
    shape = list(x.shape)
    if len(pad) % 2 or len(pad) // 2 > len(shape):
        raise UnmodelledError("padding does not fit the input")
    for axis in range(len(pad) // 2):
        shape[-1 - axis] += pad[2 * axis] + pad[2 * axis + 1]
    outputs = math.prod(shape)
    return vector(0, distinct_bytes(x) + out_bytes(outputs, x.dtype), x.dtype, "data movement")


def _pad_backward(args: Args) -> OpCost:
    """reflection_pad_backward, replication_pad_backward(grad_output, self, padding): what was repeated is added."""
    grad, x = tensor(args, 0), tensor(args, 1)
    return vector(numel(grad), read_bytes(grad) + out_bytes(numel(x), x.dtype), x.dtype, _SOURCE)


def _im2col(args: Args) -> OpCost:
    """im2col(self, kernel_size, dilation, padding, stride): every window as a column."""
    x = tensor(args, 0)
    kernel, dilation, padding, stride = (integers(args, index) for index in range(1, 5))
    windows = math.prod(
        (size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i, size in enumerate(x.shape[-2:])
    )
    outputs = math.prod(x.shape[:-2]) * math.prod(kernel) * windows
    return vector(0, distinct_bytes(x) + out_bytes(outputs, x.dtype), x.dtype, "data movement")


def _col2im(args: Args) -> OpCost:
    """col2im(self, output_size, kernel_size, ...): columns are added into the image."""
    x, size, kernel = tensor(args, 0), integers(args, 1), integers(args, 2)
    outputs = math.prod(x.shape[:-1]) // math.prod(kernel) * math.prod(size)
    return vector(numel(x), read_bytes(x) + out_bytes(outputs, x.dtype), x.dtype, _SOURCE)


def _unfold_backward(args: Args) -> OpCost:
    """unfold_backward(grad_in, input_sizes, dim, size, step): overlapping windows are added."""
    grad = tensor(args, 0)
    nbytes = read_bytes(grad) + out_bytes(math.prod(integers(args, 1)), grad.dtype)
    return vector(numel(grad), nbytes, grad.dtype, _SOURCE)


def _table() -> dict[str, Formula]:
    formulas: dict[str, Formula] = {}
    for name in _NAMES:
        neighbours = _NEIGHBOURS[name.removesuffix("_aa")[:-2]]
        formulas[f"aten::{name}"] = _upsample(neighbours)
        formulas[f"aten::{name}_backward"] = _upsample_backward(neighbours)
    for kind in ("reflection", "replication"):
        for dims in (1, 2, 3):
            formulas[f"aten::{kind}_pad{dims}d"] = _pad
            formulas[f"aten::{kind}_pad{dims}d_backward"] = _pad_backward
    return {
        **formulas,
        "aten::constant_pad_nd": _pad,
        "aten::grid_sampler_2d": _grid_sampler(2),
        "aten::_grid_sampler_2d_cpu_fallback": _grid_sampler(2),
        "aten::grid_sampler_3d": _grid_sampler(2),
        "aten::cudnn_grid_sampler": _grid_sampler(None),
        "aten::grid_sampler_2d_backward": _grid_sampler_backward,
        "aten::grid_sampler_3d_backward": _grid_sampler_backward,
        "aten::affine_grid_generator": _affine_grid,
        "aten::im2col": _im2col,
        "aten::col2im": _col2im,
        "aten::unfold_backward": _unfold_backward,
    }


FORMULAS = _table()
