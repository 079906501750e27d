"""Fourier transforms: 5 n log2 n FLOPs for a complex transform of n points, half of that where one side is real.

This is the convention of FFTW's and cuFFT's benchmarks; a library may need fewer operations.
"""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    integer,
    integers,
    numel,
    out_bytes,
    read_bytes,
    tensor,
    vector,
)
from perfkit.cost.call import OpCost, TensorArg

_SOURCE = "5 n log2 n"
_COMPLEX = {"fp16": "complex32", "fp32": "complex64", "fp64": "complex128"}
_REAL = {dtype: real for real, dtype in _COMPLEX.items()}


def _cost(x: TensorArg, points: int, elements: int, outputs: int, out_dtype: str, factor: float) -> OpCost:
    """`elements` points in all, in transforms of `points` each."""
    flops = factor * elements * math.log2(points) if points > 1 else 0.0
    return vector(flops, read_bytes(x) + out_bytes(outputs, out_dtype), x.dtype, _SOURCE)


def _points(x: TensorArg, dims: tuple[int, ...]) -> int:
    if not dims:
        raise UnmodelledError("no dimension to transform")
    return math.prod(x.shape[dim] for dim in dims)


def _complex(args: Args) -> OpCost:
    """_fft_c2c(self, dim, normalization, forward)."""
    x = tensor(args, 0)
    return _cost(x, _points(x, integers(args, 1)), numel(x), numel(x), x.dtype, 5.0)


def _from_real(args: Args) -> OpCost:
    """_fft_r2c(self, dim, normalization, onesided): one side of the last dimension has n // 2 + 1 points."""
    x, dims, last = tensor(args, 0), integers(args, 1), 0
    points = _points(x, dims)
    last = x.shape[dims[-1]]
    outputs = numel(x) // max(last, 1) * (last // 2 + 1) if integer(args, 3) else numel(x)
    return _cost(x, points, numel(x), outputs, _COMPLEX.get(x.dtype, ""), 2.5)


def _to_real(args: Args) -> OpCost:
    """_fft_c2r(self, dim, normalization, last_dim_size)."""
    x, dims, last = tensor(args, 0), integers(args, 1), integer(args, 3)
    others = _points(x, dims) // max(x.shape[dims[-1]], 1)
    outputs = numel(x) // max(x.shape[dims[-1]], 1) * last
    return _cost(x, others * last, outputs, outputs, _REAL.get(x.dtype, ""), 2.5)


FORMULAS: dict[str, Formula] = {"aten::_fft_c2c": _complex, "aten::_fft_r2c": _from_real, "aten::_fft_c2r": _to_real}
