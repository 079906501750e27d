"""Ops that resize, sample, pad and unfold images, volumes and signals.

An output of an interpolation is a weighted sum of 2, 4, 8 or 16 neighbors: as many products, and one sum less. Its
backward pass adds as many products into the input's gradient. The weights themselves, and indices, are not counted.
"""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    Shape,
    UnmodeledError,
    count_distinct_bytes,
    count_output_bytes,
    count_read_bytes,
    get_integer,
    get_integers,
    get_tensor,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import Flops, OpFamily

OPS = OpFamily(OpClass.OTHER)

_SOURCE = "resampling"


def _count_interpolation_flops(neighbors: int) -> int:
    return 2 * neighbors - 1 if neighbors > 1 else 0


def _get_output_size(x: TensorArg, args: Args) -> Shape:
    """The spatial size: given, or the input's times the factors, which are the first list of numbers after it."""
    dims = len(x.shape) - 2
    if isinstance(args[1], tuple) and not isinstance(args[1], TensorArg):
        return get_integers(args, 1)
    for value in args[2:]:
        if isinstance(value, tuple) and len(value) == dims:
            factors = [factor for factor in value if isinstance(factor, int | float)]
            if len(factors) == dims:
                return tuple(math.floor(size * factor) for size, factor in zip(x.shape[2:], factors, strict=True))
    raise UnmodeledError("no output size and no factors")


def _make_upsample(neighbors: int) -> Formula:
    """Make the formula of upsample(self, output_size, ...), or factors (`.vec`). Shrinking skips unread elements."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        outputs = math.prod(x.shape[:2]) * math.prod(_get_output_size(x, args))
        reads = min(count_distinct_bytes(x), count_output_bytes(neighbors * outputs, x.dtype))
        return make_vector_cost(
            _count_interpolation_flops(neighbors) * outputs,
            reads + count_output_bytes(outputs, x.dtype),
            x.dtype,
            _SOURCE,
        )

    return formula


def _make_upsample_backward(neighbors: int) -> Formula:
    """upsample_backward(grad_output, output_size, input_size, ...)."""

    def formula(args: Args) -> OpCost:
        grad, inputs = get_tensor(args, 0), math.prod(get_integers(args, 2))
        flops = (2 * neighbors if neighbors > 1 else 1) * numel(grad)
        return make_vector_cost(
            flops, count_read_bytes(grad) + count_output_bytes(inputs, grad.dtype), grad.dtype, _SOURCE
        )

    return formula


_NEAREST, _BICUBIC = 1, 2


def _count_neighbors(mode: int, dims: int) -> int:
    return {_NEAREST: 1, _BICUBIC: 16}.get(mode, 1 << dims)


def _make_grid_sampler(mode_at: int | None) -> Formula:
    """grid_sampler(input, grid, interpolation_mode, ...): one position for every spatial output."""

    def formula(args: Args) -> OpCost:
        x, grid = get_tensor(args, 0), get_tensor(args, 1)
        neighbors = _count_neighbors(get_integer(args, mode_at) if mode_at else 0, grid.shape[-1])
        outputs = math.prod(grid.shape[:-1]) * x.shape[1]
        reads = min(count_distinct_bytes(x), count_output_bytes(neighbors * outputs, x.dtype))
        nbytes = reads + count_read_bytes(grid) + count_output_bytes(outputs, x.dtype)
        return make_vector_cost(_count_interpolation_flops(neighbors) * outputs, nbytes, x.dtype, _SOURCE)

    return formula


@OPS.formula("grid_sampler_2d_backward grid_sampler_3d_backward")
def _cost_grid_sampler_backward(args: Args) -> OpCost:
    """grid_sampler_backward(grad_output, input, grid, mode, padding, align, output_mask): both gradients."""
    grad, x, grid = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
    neighbors = _count_neighbors(args[3] if isinstance(args[3], int) else 0, grid.shape[-1])
    mask = get_integers(args, 6) if len(args) > 6 and isinstance(args[6], tuple) else (True, True)
    outputs = (count_output_bytes(numel(x), x.dtype) if mask[0] else 0.0) + count_output_bytes(numel(grid), grid.dtype)
    flops = 2 * neighbors * numel(grad) * (bool(mask[0]) + 1)
    return make_vector_cost(flops, count_read_bytes(grad, x, grid) + outputs, x.dtype, _SOURCE)


@OPS.formula("affine_grid_generator")
def _cost_affine_grid(args: Args) -> OpCost:
    """affine_grid_generator(theta, size, ...): each position times a (dims, dims + 1) matrix."""
    theta, size = get_tensor(args, 0, 3), get_integers(args, 1)
    positions, dims = size[0] * math.prod(size[2:]), theta.shape[1]
    nbytes = count_read_bytes(theta) + count_output_bytes(positions * dims, theta.dtype)
    return make_vector_cost(2 * positions * dims * (dims + 1), nbytes, theta.dtype, _SOURCE)


@OPS.formula(
    "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d",
    flops=Flops.NONE,
)
@OPS.formula("constant_pad_nd", flops=Flops.NONE, op_class=OpClass.COPY)
def _cost_pad(args: Args) -> OpCost:
    """constant_pad_nd, reflection_pad, replication_pad(self, pad, ...): (before, after) from the last dimension."""
    x, pad = get_tensor(args, 0), get_integers(args, 1)
    shape = list(x.shape)
    if len(pad) % 2 or len(pad) // 2 > len(shape):
        raise UnmodeledError("padding does not fit the input")
    for axis in range(len(pad) // 2):
        shape[-1 - axis] += pad[2 * axis] + pad[2 * axis + 1]
    outputs = math.prod(shape)
    return make_vector_cost(0, count_distinct_bytes(x) + count_output_bytes(outputs, x.dtype), x.dtype, "data movement")


@OPS.formula(
    "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward"
    " replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward"
)
def _cost_pad_backward(args: Args) -> OpCost:
    """Cost reflection_pad_backward, replication_pad_backward(grad_output, self, padding): sums repeated elements."""
    grad, x = get_tensor(args, 0), get_tensor(args, 1)
    return make_vector_cost(
        numel(grad), count_read_bytes(grad) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE
    )


@OPS.formula("im2col", flops=Flops.NONE)
def _cost_im2col(args: Args) -> OpCost:
    """im2col(self, kernel_size, dilation, padding, stride): every window as a column."""
    x = get_tensor(args, 0)
    kernel, dilation, padding, stride = (get_integers(args, index) for index in range(1, 5))
    windows = math.prod(
        (size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i, size in enumerate(x.shape[-2:])
    )
    outputs = math.prod(x.shape[:-2]) * math.prod(kernel) * windows
    return make_vector_cost(0, count_distinct_bytes(x) + count_output_bytes(outputs, x.dtype), x.dtype, "data movement")


@OPS.formula("col2im")
def _cost_col2im(args: Args) -> OpCost:
    """col2im(self, output_size, kernel_size, ...): columns are added into the image."""
    x, size, kernel = get_tensor(args, 0), get_integers(args, 1), get_integers(args, 2)
    outputs = math.prod(x.shape[:-1]) // math.prod(kernel) * math.prod(size)
    return make_vector_cost(numel(x), count_read_bytes(x) + count_output_bytes(outputs, x.dtype), x.dtype, _SOURCE)


@OPS.formula("unfold_backward")
def _cost_unfold_backward(args: Args) -> OpCost:
    """unfold_backward(grad_in, input_sizes, dim, size, step): overlapping windows are added."""
    grad = get_tensor(args, 0)
    nbytes = count_read_bytes(grad) + count_output_bytes(math.prod(get_integers(args, 1)), grad.dtype)
    return make_vector_cost(numel(grad), nbytes, grad.dtype, _SOURCE)


OPS.add("grid_sampler_2d _grid_sampler_2d_cpu_fallback grid_sampler_3d", _make_grid_sampler(2))
OPS.add("cudnn_grid_sampler", _make_grid_sampler(None))

# Neighbors that an output depends on.
_UPSAMPLES = {
    1: "upsample_nearest1d upsample_nearest2d upsample_nearest3d"
    " _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d",
    2: "upsample_linear1d",
    4: "upsample_bilinear2d _upsample_bilinear2d_aa",
    8: "upsample_trilinear3d",
    16: "upsample_bicubic2d _upsample_bicubic2d_aa",
    36: "_upsample_lanczos2d_aa",
}
for _neighbors, _names in _UPSAMPLES.items():
    OPS.add(_names, _make_upsample(_neighbors), flops=Flops.NONE if _neighbors == 1 else Flops.COUNTED)
    OPS.add(" ".join(f"{name}_backward" for name in _names.split()), _make_upsample_backward(_neighbors))
