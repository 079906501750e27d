"""Reads an op's recorded arguments and counts their bytes.

The accessors raise `UnmodeledError` where an argument is not what the op's schema says, which happens when a trace
lost it; so no formula computes from a guess. Bytes of an unknown dtype are NaN, which a sum keeps.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from perfkit.cost.calls import dtypes
from perfkit.cost.calls.op_call import Arg, ComputeUnit, OpCost, TensorArg

Args = tuple[Arg, ...]
Shape = tuple[int, ...]
Formula = Callable[[Args], OpCost]


class UnmodeledError(Exception):
    """The recorded arguments do not suffice for the op's formula."""


def get_optional_tensor(args: Args, index: int) -> TensorArg | None:
    """Argument `index` if it is a tensor."""
    value = args[index] if index < len(args) else None
    return value if isinstance(value, TensorArg) else None


def get_tensor(args: Args, index: int, dims: int | None = None) -> TensorArg:
    """The tensor at `index`, which must have `dims` dimensions if that is given."""
    value = get_optional_tensor(args, index)
    if value is None or (dims is not None and len(value.shape) != dims):
        raise UnmodeledError(f"argument {index} is not a tensor of the expected rank")
    return value


def get_tensor_list(args: Args, index: int) -> tuple[TensorArg, ...]:
    """The tensors of a list argument; absent ones (of an optional list) are left out."""
    value = args[index] if index < len(args) else None
    if not isinstance(value, tuple) or isinstance(value, TensorArg):
        raise UnmodeledError(f"argument {index} is not a list")
    return tuple(item for item in value if isinstance(item, TensorArg))


def get_integer(args: Args, index: int) -> int:
    value = args[index] if index < len(args) else None
    if not isinstance(value, int):
        raise UnmodeledError(f"argument {index} is not an integer")
    return value


def get_integers(args: Args, index: int) -> Shape:
    """A list of integers (or of booleans)."""
    value = args[index] if index < len(args) else None
    if not isinstance(value, tuple) or isinstance(value, TensorArg):
        raise UnmodeledError(f"argument {index} is not a list")
    if not all(isinstance(item, int) for item in value):
        raise UnmodeledError(f"argument {index} is not a list of integers")
    return tuple(item for item in value if isinstance(item, int))


def get_dtype_argument(args: Args, index: int) -> str | None:
    """The dtype that a ScalarType argument (its c10 code) asks for; None where it asks for none."""
    value = args[index] if index < len(args) else None
    return dtypes.BY_CODE[value].name if isinstance(value, int) and value in dtypes.BY_CODE else None


def walk_tensors(args: Iterable[Arg]) -> Iterator[TensorArg]:
    """Every tensor among the arguments, those in lists too."""
    for value in args:
        if isinstance(value, TensorArg):
            yield value
        elif isinstance(value, tuple):
            yield from walk_tensors(value)


def numel(value: TensorArg) -> int:
    return math.prod(value.shape)


def get_element_size(dtype: str) -> float:
    """Bytes of one element; NaN for an unknown dtype."""
    return dtypes.BY_NAME[dtype].size if dtype in dtypes.BY_NAME else math.nan


def count_distinct_bytes(value: TensorArg) -> float:
    """Bytes of the distinct elements: a dimension of stride 0 repeats the same ones, and windows that overlap (an
    unfolded signal) share them. What a view leaves out of its storage is not counted."""
    if 0 in value.shape:
        return 0.0
    dims = [(size, abs(stride)) for size, stride in zip(value.shape, value.stride, strict=True) if stride != 0]
    distinct = math.prod(size for size, _ in dims)
    span = 1 + sum((size - 1) * stride for size, stride in dims)
    return min(distinct, span) * get_element_size(value.dtype)


def count_read_bytes(*values: TensorArg | None) -> float:
    """Bytes to read the given tensors once each; None stands for an absent optional one."""
    return sum(count_distinct_bytes(value) for value in values if value is not None)


def count_output_bytes(elements: float, dtype: str) -> float:
    """Count the bytes to write an output of this many elements."""
    return elements * get_element_size(dtype) if elements else 0.0


def broadcast_shapes(shapes: Iterable[Shape]) -> Shape:
    """The common shape of tensors that are combined element by element."""
    result: list[int] = []
    for shape in shapes:
        padded = [1] * (len(result) - len(shape)) + list(shape)
        result = [1] * (len(padded) - len(result)) + result
        for position, size in enumerate(padded):
            if size != 1:
                if result[position] not in (1, size):
                    raise UnmodeledError("shapes do not broadcast")
                result[position] = size
    return tuple(result)


def infer_result_dtype(values: Iterable[TensorArg]) -> str:
    """Dtype of an element-wise result: tensors with dimensions decide, others only raise the category."""
    dimensioned, scalars = dtypes.UNKNOWN, dtypes.UNKNOWN
    seen_dimensioned = False
    for value in values:
        if value.shape:
            dimensioned = dtypes.promote_dtypes(dimensioned, value.dtype) if seen_dimensioned else value.dtype
            seen_dimensioned = True
        else:
            scalars = dtypes.promote_dtypes(scalars, value.dtype)
    if not seen_dimensioned:
        return scalars
    if dtypes.UNKNOWN in (dimensioned, scalars):
        return dimensioned
    if dtypes.BY_NAME[scalars].rank > dtypes.BY_NAME[dimensioned].rank:
        return "fp32" if dtypes.is_floating(scalars) else scalars
    return dimensioned


def make_cost(flops: float | None, nbytes: float, unit: ComputeUnit, dtype: str, source: str) -> OpCost:
    """An `OpCost` from sums in which NaN stands for unknown bytes."""
    if (flops is not None and flops < 0) or nbytes < 0:
        raise UnmodeledError("recorded sizes imply a negative amount")
    return OpCost(flops, None if math.isnan(nbytes) else nbytes, unit, dtypes.get_peak_name(dtype), source)


def make_matrix_cost(flops: float, nbytes: float, dtype: str, source: str) -> OpCost:
    """A cost whose arithmetic is matrix products: only their FLOPs are given, as of real numbers.

    A complex multiplication takes 4 multiplications and 2 additions, a complex addition 2: 8 FLOPs in place of 2.
    """
    return make_cost(4 * flops if dtypes.is_complex(dtype) else flops, nbytes, ComputeUnit.MATRIX, dtype, source)


def make_vector_cost(flops: float, nbytes: float, dtype: str, source: str) -> OpCost:
    """A cost without matrix products. Integer arithmetic is no floating-point operation."""
    return make_cost(flops if dtypes.is_floating(dtype) else 0.0, nbytes, ComputeUnit.VECTOR, dtype, source)
