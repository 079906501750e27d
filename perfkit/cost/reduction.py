"""Reductions: a stated number of FLOPs per input element; the input read once, the reduced output written once."""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    all_tensors,
    dtype_argument,
    numel,
    out_bytes,
    read_bytes,
    tensor,
    vector,
)
from perfkit.cost.call import OpCost, TensorArg
from perfkit.cost.elementwise import elementwise

_SOURCE = "reduction"

# FLOPs per input element: a sum 1; a variance 4 (sum for the mean, subtract, square, sum); a norm 2 (square, sum).
_COUNTS = {"amax": 1, "amin": 1, "var": 4, "std": 4, "any": 0, "all": 0}
_LOGSUMEXP = 4  # maximum, subtract, exp, sum


def _reduced(x: TensorArg, dims: object) -> int:
    """Elements that remain: dims is an axis, a list of axes, or absent or empty for all of them."""
    if isinstance(dims, tuple):
        axes = [axis for axis in dims if isinstance(axis, int)]
    elif isinstance(dims, int) and not isinstance(dims, bool):
        axes = [dims]
    else:
        axes = []
    rank = len(x.shape)
    if not axes or rank == 0:
        return 1
    if any(not -rank <= axis < rank for axis in axes):
        raise UnmodelledError("axis out of range")
    gone = {axis % rank for axis in axes}
    return math.prod(size for axis, size in enumerate(x.shape) if axis not in gone)


def _reduce(count: int, dims_at: int = 1, outputs: int = 1, extra_per_output: int = 0) -> Formula:
    """`outputs` tensors of the input's dtype remain, and `extra_per_output` further bytes for each element of them."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        kept = _reduced(x, args[dims_at] if dims_at < len(args) else None)
        nbytes = read_bytes(x) + outputs * out_bytes(kept, x.dtype) + extra_per_output * kept
        return vector(count * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


def _summed(args: Args) -> OpCost:
    """sum, mean, nansum and prod: of all elements (self, *, dtype), or along axes (self, dim, keepdim, *, dtype).

    CUDA's autocast asks for the result in fp32.
    """
    x = tensor(args, 0)
    of_all = len(args) == 2 and isinstance(args[1], int)
    kept = 1 if of_all or len(args) == 1 else _reduced(x, args[1])
    dtype = dtype_argument(args, 1 if of_all else 3) or x.dtype
    return vector(numel(x), read_bytes(x) + out_bytes(kept, dtype), x.dtype, _SOURCE)


def _norm(args: Args) -> OpCost:
    """norm(self, p, dim, keepdim, *, dtype), or of all elements (self, p, *, dtype)."""
    of_all = len(args) == 3 and isinstance(args[2], int)
    return _reduce(2, dims_at=2)(args[:2] if of_all else args)


def _max(args: Args) -> OpCost:
    """max and min: of all elements, along an axis with the positions (int64), or of two tensors."""
    if len(args) > 1 and isinstance(args[1], TensorArg):
        return elementwise(1)(args)
    along_axis = len(args) > 1
    return _reduce(1, extra_per_output=8 if along_axis else 0)(args)


def _arg(args: Args) -> OpCost:
    """argmax and argmin(self, dim, keepdim) give positions only."""
    x = tensor(args, 0)
    kept = _reduced(x, args[1] if len(args) > 1 else None)
    return vector(numel(x), read_bytes(x) + 8 * kept, x.dtype, _SOURCE)


def _scan(args: Args, count: int = 1) -> OpCost:
    """cumsum, cumprod, logcumsumexp: as many outputs as inputs."""
    x = tensor(args, 0)
    return vector(count * numel(x), read_bytes(x) + out_bytes(numel(x), x.dtype), x.dtype, "scan")


def _scan_with_positions(args: Args) -> OpCost:
    """cummax, cummin(self, dim): values and int64 positions."""
    x = tensor(args, 0)
    return vector(numel(x), read_bytes(x) + out_bytes(numel(x), x.dtype) + 8 * numel(x), x.dtype, "scan")


def _to_one(count: int, out_dtype: str | None = None) -> Formula:
    """All elements of all tensors become one: equal(self, other), dist(self, other, p), trace(self)."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        nbytes = read_bytes(*all_tensors(args)) + out_bytes(1, out_dtype or x.dtype)
        return vector(count * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


def _trace(args: Args) -> OpCost:
    """trace(self): the diagonal is read."""
    x = tensor(args, 0, 2)
    diagonal = min(x.shape)
    return vector(diagonal, out_bytes(diagonal + 1, x.dtype), x.dtype, _SOURCE)


def _count_nonzero(args: Args) -> OpCost:
    """count_nonzero(self, dim): int64 counts."""
    x = tensor(args, 0)
    kept = _reduced(x, args[1] if len(args) > 1 else None)
    return vector(0, read_bytes(x) + 8 * kept, x.dtype, _SOURCE)


FORMULAS: dict[str, Formula] = {
    **{f"aten::{name}": _reduce(count) for name, count in _COUNTS.items()},
    **dict.fromkeys(("aten::sum", "aten::mean", "aten::nansum", "aten::prod"), _summed),
    "aten::var_mean": _reduce(4, outputs=2),
    "aten::std_mean": _reduce(4, outputs=2),
    "aten::linalg_vector_norm": _reduce(2, dims_at=2),
    "aten::norm": _norm,
    "aten::logsumexp": _reduce(_LOGSUMEXP),
    "aten::max": _max,
    "aten::min": _max,
    "aten::argmax": _arg,
    "aten::argmin": _arg,
    "aten::cumsum": _scan,
    "aten::cumprod": _scan,
    "aten::cumsum_": _scan,
    "aten::cumprod_": _scan,
    "aten::_logcumsumexp": lambda args: _scan(args, 4),
    "aten::logcumsumexp": lambda args: _scan(args, 4),
    "aten::cummax": _scan_with_positions,
    "aten::cummin": _scan_with_positions,
    "aten::aminmax": _reduce(2, outputs=2),
    "aten::_aminmax": _reduce(2, outputs=2),
    "aten::count_nonzero": _count_nonzero,
    "aten::equal": _to_one(1, "bool"),
    "aten::_is_all_true": _to_one(0, "bool"),
    "aten::_is_any_true": _to_one(0, "bool"),
    "aten::dist": _to_one(3),
    "aten::trace": _trace,
}
