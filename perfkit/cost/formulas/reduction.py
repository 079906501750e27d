"""Reductions: a stated number of FLOPs per input element; the input read once, the reduced output written once."""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_dtype_argument,
    get_tensor,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import Flops, OpFamily
from perfkit.cost.calls.output_rules import infer_reduced, make_like
from perfkit.cost.formulas.elementwise import make_elementwise

OPS = OpFamily(OpClass.REDUCTION)

_SOURCE = "reduction"

# FLOPs per input element: a sum 1; a variance 4 (sum for the mean, subtract, square, sum); a norm 2 (square, sum).
_VARIANCE, _NORM = 4, 2
_LOGSUMEXP = 4  # maximum, subtract, exp, sum


def _count_kept(x: TensorArg, dims: object) -> int:
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
        raise UnmodeledError("axis out of range")
    gone = {axis % rank for axis in axes}
    return math.prod(size for axis, size in enumerate(x.shape) if axis not in gone)


def _make_reduction(count: int, dims_at: int = 1, outputs: int = 1, extra_per_output: int = 0) -> Formula:
    """`outputs` tensors of the input's dtype remain, and `extra_per_output` further bytes for each element of them."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        kept = _count_kept(x, args[dims_at] if dims_at < len(args) else None)
        nbytes = count_read_bytes(x) + outputs * count_output_bytes(kept, x.dtype) + extra_per_output * kept
        return make_vector_cost(count * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


@OPS.formula("sum mean", outputs=infer_reduced)
@OPS.formula("nansum prod")
def _cost_sum(args: Args) -> OpCost:
    """sum, mean, nansum and prod: of all elements (self, *, dtype), or along axes (self, dim, keepdim, *, dtype).

    CUDA's autocast asks for the result in fp32.
    """
    x = get_tensor(args, 0)
    of_all = len(args) == 2 and isinstance(args[1], int)
    kept = 1 if of_all or len(args) == 1 else _count_kept(x, args[1])
    dtype = get_dtype_argument(args, 1 if of_all else 3) or x.dtype
    return make_vector_cost(numel(x), count_read_bytes(x) + count_output_bytes(kept, dtype), x.dtype, _SOURCE)


@OPS.formula("norm")
def _cost_norm(args: Args) -> OpCost:
    """norm(self, p, dim, keepdim, *, dtype), or of all elements (self, p, *, dtype)."""
    of_all = len(args) == 3 and isinstance(args[2], int)
    return _make_reduction(_NORM, dims_at=2)(args[:2] if of_all else args)


@OPS.formula("max min")
def _cost_max(args: Args) -> OpCost:
    """max and min: of all elements, along an axis with the positions (int64), or of two tensors."""
    if len(args) > 1 and isinstance(args[1], TensorArg):
        return make_elementwise(1)(args)
    along_axis = len(args) > 1
    return _make_reduction(1, extra_per_output=8 if along_axis else 0)(args)


@OPS.formula("argmax argmin")
def _cost_argmax(args: Args) -> OpCost:
    """argmax and argmin(self, dim, keepdim) give positions only."""
    x = get_tensor(args, 0)
    kept = _count_kept(x, args[1] if len(args) > 1 else None)
    return make_vector_cost(numel(x), count_read_bytes(x) + 8 * kept, x.dtype, _SOURCE)


@OPS.formula("cumsum", outputs=make_like(0))
@OPS.formula("cumsum_ cumprod cumprod_")
def _cost_scan(args: Args, count: int = 1) -> OpCost:
    """Cost cumsum, cumprod, logcumsumexp: as many outputs as inputs."""
    x = get_tensor(args, 0)
    return make_vector_cost(
        count * numel(x), count_read_bytes(x) + count_output_bytes(numel(x), x.dtype), x.dtype, "scan"
    )


@OPS.formula("cummax cummin")
def _cost_scan_with_positions(args: Args) -> OpCost:
    """cummax, cummin(self, dim): values and int64 positions."""
    x = get_tensor(args, 0)
    return make_vector_cost(
        numel(x), count_read_bytes(x) + count_output_bytes(numel(x), x.dtype) + 8 * numel(x), x.dtype, "scan"
    )


def _make_full_reduction(count: int, out_dtype: str | None = None) -> Formula:
    """Make the formula of a full reduction: equal(self, other), dist(self, other, p), trace(self)."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        nbytes = count_read_bytes(*walk_tensors(args)) + count_output_bytes(1, out_dtype or x.dtype)
        return make_vector_cost(count * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


@OPS.formula("trace")
def _cost_trace(args: Args) -> OpCost:
    """trace(self): the diagonal is read."""
    x = get_tensor(args, 0, 2)
    diagonal = min(x.shape)
    return make_vector_cost(diagonal, count_output_bytes(diagonal + 1, x.dtype), x.dtype, _SOURCE)


@OPS.formula("count_nonzero", flops=Flops.NONE)
def _cost_count_nonzero(args: Args) -> OpCost:
    """count_nonzero(self, dim): int64 counts."""
    x = get_tensor(args, 0)
    kept = _count_kept(x, args[1] if len(args) > 1 else None)
    return make_vector_cost(0, count_read_bytes(x) + 8 * kept, x.dtype, _SOURCE)


OPS.add("amax amin", _make_reduction(1), outputs=infer_reduced)
OPS.add("var std", _make_reduction(_VARIANCE))
OPS.add("any all", _make_reduction(0), flops=Flops.NONE)
OPS.add("var_mean std_mean", _make_reduction(_VARIANCE, outputs=2))
OPS.add("linalg_vector_norm", _make_reduction(_NORM, dims_at=2))
OPS.add("logsumexp", _make_reduction(_LOGSUMEXP))
OPS.add("_logcumsumexp logcumsumexp", lambda args: _cost_scan(args, 4))
OPS.add("aminmax _aminmax", _make_reduction(2, outputs=2))
OPS.add("equal", _make_full_reduction(1, "bool"))
OPS.add("_is_all_true _is_any_true", _make_full_reduction(0, "bool"), flops=Flops.NONE)
OPS.add("dist", _make_full_reduction(3))
