"""Fourier transforms: 5 n log2 n FLOPs for a complex transform of n points, half of that where one side is real.

This is the convention of FFTW's and cuFFT's benchmarks; a library may need fewer operations.
"""

import math

from perfkit.cost.calls.args import (
    Args,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_integer,
    get_integers,
    get_tensor,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import OpFamily

OPS = OpFamily(OpClass.OTHER)

_SOURCE = "5 n log2 n"
_COMPLEX = {"fp16": "complex32", "fp32": "complex64", "fp64": "complex128"}
_REAL = {dtype: real for real, dtype in _COMPLEX.items()}


def _cost_transform(x: TensorArg, points: int, elements: int, outputs: int, out_dtype: str, factor: float) -> OpCost:
    """`elements` points in all, in transforms of `points` each."""
    flops = factor * elements * math.log2(points) if points > 1 else 0.0
    return make_vector_cost(flops, count_read_bytes(x) + count_output_bytes(outputs, out_dtype), x.dtype, _SOURCE)


def _count_points(x: TensorArg, dims: tuple[int, ...]) -> int:
    if not dims:
        raise UnmodeledError("no dimension to transform")
    return math.prod(x.shape[dim] for dim in dims)


@OPS.formula("_fft_c2c")
def _cost_complex(args: Args) -> OpCost:
    """_fft_c2c(self, dim, normalization, forward)."""
    x = get_tensor(args, 0)
    return _cost_transform(x, _count_points(x, get_integers(args, 1)), numel(x), numel(x), x.dtype, 5.0)


@OPS.formula("_fft_r2c")
def _cost_from_real(args: Args) -> OpCost:
    """_fft_r2c(self, dim, normalization, onesided): one side of the last dimension has n // 2 + 1 points."""
    x, dims, last = get_tensor(args, 0), get_integers(args, 1), 0
    points = _count_points(x, dims)
    last = x.shape[dims[-1]]
    outputs = numel(x) // max(last, 1) * (last // 2 + 1) if get_integer(args, 3) else numel(x)
    return _cost_transform(x, points, numel(x), outputs, _COMPLEX.get(x.dtype, ""), 2.5)


@OPS.formula("_fft_c2r")
def _cost_to_real(args: Args) -> OpCost:
    """_fft_c2r(self, dim, normalization, last_dim_size)."""
    x, dims, last = get_tensor(args, 0), get_integers(args, 1), get_integer(args, 3)
    others = _count_points(x, dims) // max(x.shape[dims[-1]], 1)
    outputs = numel(x) // max(x.shape[dims[-1]], 1) * last
    return _cost_transform(x, others * last, outputs, outputs, _REAL.get(x.dtype, ""), 2.5)
