"""Ops that fill memory: constants, ranges and random numbers. Every element is written once, without FLOPs."""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_dtype_argument,
    get_integer,
    get_integers,
    get_optional_tensor,
    get_tensor,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import Flops, OpFamily
from perfkit.cost.calls.output_rules import make_like

OPS = OpFamily(OpClass.OTHER, Flops.MOVES)

_DEFAULT_DTYPE = "fp32"


def _cost_written(elements: float, dtype: str, reads: float = 0.0) -> OpCost:
    return make_vector_cost(0, reads + count_output_bytes(elements, dtype), dtype, "filling")


@OPS.formula("fill_ zero_", op_class=OpClass.COPY)
@OPS.formula("normal_ uniform_ random_ exponential_ log_normal_ geometric_ cauchy_")
@OPS.formula("bernoulli_", op_class=OpClass.POINTWISE)
def _cost_fill(args: Args) -> OpCost:
    """fill_, zero_, normal_, ...: writes all of self."""
    x = get_tensor(args, 0)
    return _cost_written(numel(x), x.dtype)


def _make_new(size_at: int, dtype_at: int, like: int | None = None) -> Formula:
    """zeros, full, randn, new_zeros: a tensor of the given size."""

    def formula(args: Args) -> OpCost:
        dtype = get_dtype_argument(args, dtype_at) or (
            get_tensor(args, like).dtype if like is not None else _DEFAULT_DTYPE
        )
        return _cost_written(math.prod(get_integers(args, size_at)), dtype)

    return formula


def _make_filled_like(dtype_at: int) -> Formula:
    """ones_like, rand_like, full_like: a tensor like another."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        return _cost_written(numel(x), get_dtype_argument(args, dtype_at) or x.dtype)

    return formula


@OPS.formula("randint")
def _cost_randint(args: Args) -> OpCost:
    """randint(high, size, dtype) or randint(low, high, size, dtype)."""
    at = next((index for index, value in enumerate(args) if isinstance(value, tuple)), None)
    if at is None:
        raise UnmodeledError("no size")
    return _cost_written(math.prod(get_integers(args, at)), get_dtype_argument(args, at + 1) or "int64")


def _get_number(args: Args, index: int) -> float:
    value = args[index] if index < len(args) else None
    if not isinstance(value, int | float):
        raise UnmodeledError(f"argument {index} is not a number")
    return value


@OPS.formula("arange")
def _cost_arange(args: Args) -> OpCost:
    """arange(end, dtype, layout, device, pin), (start, end, ...), (start, end, step, ...); or out= after those."""
    out = get_optional_tensor(args, len(args) - 1)
    bounds = len(args) - (1 if out is not None else 4)
    if not 1 <= bounds <= 3:
        raise UnmodeledError("unknown form of arange")
    values = [_get_number(args, index) for index in range(bounds)]
    start, end, step = (0, *values, 1) if bounds == 1 else (*values, 1)[:3]
    default = "int64" if all(isinstance(value, int) for value in values) else _DEFAULT_DTYPE
    dtype = out.dtype if out is not None else get_dtype_argument(args, bounds) or default
    return _cost_written(max(math.ceil((end - start) / step), 0), dtype)


def _make_linspace(steps_at: int, dtype_at: int) -> Formula:
    """linspace(start, end, steps, dtype, ...), logspace(start, end, steps, base, ...), or out= at the end."""

    def formula(args: Args) -> OpCost:
        out = get_optional_tensor(args, len(args) - 1)
        dtype = out.dtype if out is not None else get_dtype_argument(args, dtype_at) or _DEFAULT_DTYPE
        return _cost_written(get_integer(args, steps_at), dtype)

    return formula


@OPS.formula("eye")
def _cost_eye(args: Args) -> OpCost:
    """eye(n, ...), eye(n, m, ...), or out= at the end."""
    rows = get_integer(args, 0)
    out = get_optional_tensor(args, len(args) - 1)
    columns = args[1] if len(args) in (3, 6) and isinstance(args[1], int) else rows
    dtype = out.dtype if out is not None else get_dtype_argument(args, len(args) - 4) or _DEFAULT_DTYPE
    return _cost_written(rows * columns, dtype)


def _count_below_diagonal(rows: int, columns: int, offset: int) -> int:
    """Elements on and below a diagonal: the sum over rows of row + offset + 1, within 0 and the columns."""
    first = min(max(-offset - 1, 0), rows)
    full = min(max(columns - offset - 1, first), rows)
    ramp = (full - first) * (first + full - 1 + 2 * (offset + 1)) // 2
    return ramp + (rows - full) * columns


def _make_triangle(upper: bool) -> Formula:
    """tril_indices, triu_indices(row, col, offset, dtype, ...): two rows of positions."""

    def formula(args: Args) -> OpCost:
        rows, columns, offset = get_integer(args, 0), get_integer(args, 1), get_integer(args, 2)
        count = (
            rows * columns - _count_below_diagonal(rows, columns, offset - 1)
            if upper
            else _count_below_diagonal(rows, columns, offset)
        )
        return _cost_written(2 * count, get_dtype_argument(args, 3) or "int64")

    return formula


@OPS.formula("bernoulli", op_class=OpClass.POINTWISE, outputs=make_like(0))
@OPS.formula("poisson normal _standard_gamma")
def _cost_drawn(args: Args) -> OpCost:
    """Cost bernoulli, poisson(self), normal(mean, std): reads parameters, draws as many numbers."""
    parameters = [parameter for parameter in args[:2] if isinstance(parameter, TensorArg)]
    if parameters:
        return _cost_written(
            max(numel(parameter) for parameter in parameters), parameters[0].dtype, count_read_bytes(*parameters)
        )
    return _cost_written(math.prod(get_integers(args, 2)), get_dtype_argument(args, 4) or _DEFAULT_DTYPE)


@OPS.formula("multinomial")
def _cost_multinomial(args: Args) -> OpCost:
    """multinomial(self, num_samples, ...): positions drawn from each row of weights."""
    x = get_tensor(args, 0)
    rows = x.shape[0] if len(x.shape) > 1 else 1
    return make_vector_cost(0, count_read_bytes(x) + 8 * rows * get_integer(args, 1), x.dtype, "filling")


@OPS.formula("randperm")
def _cost_randperm(args: Args) -> OpCost:
    """randperm(n, dtype, ...), or out= at the end."""
    out = get_optional_tensor(args, len(args) - 1)
    return _cost_written(
        get_integer(args, 0), out.dtype if out is not None else get_dtype_argument(args, len(args) - 4) or "int64"
    )


@OPS.formula("scalar_tensor")
def _cost_scalar(args: Args) -> OpCost:
    return _cost_written(1, get_dtype_argument(args, 1) or _DEFAULT_DTYPE)


OPS.add("zeros ones", _make_new(0, 1), op_class=OpClass.COPY)
OPS.add("rand randn _efficientzerotensor", _make_new(0, 1))
OPS.add("full", _make_new(0, 2), op_class=OpClass.COPY)
OPS.add("new_zeros new_ones", _make_new(1, 2, like=0))
OPS.add("new_full", _make_new(1, 3, like=0))
OPS.add("zeros_like ones_like rand_like randn_like", _make_filled_like(1))
OPS.add("full_like randint_like", _make_filled_like(2))
OPS.add("linspace", _make_linspace(2, 3))
OPS.add("logspace", _make_linspace(2, 4))
OPS.add("tril_indices", _make_triangle(upper=False))
OPS.add("triu_indices", _make_triangle(upper=True))
