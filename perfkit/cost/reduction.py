"""Reductions: a stated number of FLOPs per input element; the input read once, the reduced output written once."""

import math

from perfkit.cost.args import Args, Formula, UnmodelledError, numel, out_bytes, read_bytes, tensor, vector
from perfkit.cost.call import OpCost, TensorArg
from perfkit.cost.elementwise import elementwise

_SOURCE = "reduction"

# FLOPs per input element: a sum 1; a variance 4 (sum for the mean, subtract, square, sum); a norm 2 (square, sum).
_COUNTS = {"sum": 1, "mean": 1, "nansum": 1, "prod": 1, "amax": 1, "amin": 1, "var": 4, "std": 4, "any": 0, "all": 0}
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


def _scan(args: Args) -> OpCost:
    """cumsum, cumprod: as many outputs as inputs."""
    x = tensor(args, 0)
    return vector(numel(x), read_bytes(x) + out_bytes(numel(x), x.dtype), x.dtype, "scan")


FORMULAS: dict[str, Formula] = {
    **{f"aten::{name}": _reduce(count) for name, count in _COUNTS.items()},
    "aten::var_mean": _reduce(4, outputs=2),
    "aten::std_mean": _reduce(4, outputs=2),
    "aten::linalg_vector_norm": _reduce(2, dims_at=2),
    "aten::norm": _reduce(2, dims_at=2),
    "aten::logsumexp": _reduce(_LOGSUMEXP),
    "aten::max": _max,
    "aten::min": _max,
    "aten::argmax": _arg,
    "aten::argmin": _arg,
    "aten::cumsum": _scan,
    "aten::cumprod": _scan,
}
