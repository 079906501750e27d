"""Parses an op's recorded inputs into the arguments of its cost formula."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from perfkit.core.files import JSON_ERRORS
from perfkit.cost.calls.dtypes import BY_TRACE_NAME, UNKNOWN
from perfkit.cost.calls.op_call import Arg, Scalar, TensorArg
from perfkit.trace.model import Signature

_TENSOR_LIST = "TensorList"
_TENSOR = "Tensor"  # of a type that was not recorded: NVTX ranges tell sizes only

# Of no memory: sizes beyond are damage, and products of several would not fit a double. Integers of ops have 64 bits.
_MOST_ELEMENTS = 2**50
_LONGEST_INTEGER = 2**63
_MOST_KEPT = 1024  # signatures; costs and timelines ask for the same ones
_SCALARS = {"True": True, "False": False, "": None, "None": None}


@lru_cache(maxsize=_MOST_KEPT)
def parse_arguments(signature: Signature) -> tuple[Arg, ...] | None:
    """The arguments in the order of the op's schema; None where the trace's lists do not fit together.

    What a trace loses becomes None: strings, optional lists of tensors, values where no concrete inputs were recorded,
    lists of tensors in older versions. So do tensors of sizes that cannot be.
    Tensors of a list have no dtype there. Strides that were not recorded are taken to be contiguous.
    """
    try:
        types: Any = msgspec.json.decode(signature.types)
        dims: Any = msgspec.json.decode(signature.dims) if signature.dims else []
        strides: Any = msgspec.json.decode(signature.strides) if signature.strides else []
        concrete: Any = msgspec.json.decode(signature.concrete) if signature.concrete else []
    except JSON_ERRORS:
        return None
    if isinstance(types, str) and isinstance(dims, str):  # Ascend: "64,32;32,16" and "float;float", empty for no tensor
        types, dims = types.split(";"), [_parse_sizes(row) for row in dims.split(";")]
        strides, concrete = [], []
    if not all(isinstance(field, list) for field in (types, dims, strides, concrete)) or len(dims) != len(types):
        return None
    strides += [None] * (len(types) - len(strides))
    concrete += [""] * (len(types) - len(concrete))
    return tuple(map(_parse_argument, types, dims, strides, concrete))


def has_missing_strides(signature: Signature) -> bool:
    """True if a tensor has sizes but no strides, as torch records sparse and oneDNN tensors."""
    if b"[]" not in signature.strides:
        return False
    try:
        dims: Any = msgspec.json.decode(signature.dims)
        strides: Any = msgspec.json.decode(signature.strides)
    except JSON_ERRORS:
        return False
    if not isinstance(dims, list) or not isinstance(strides, list):
        return False
    return any(_is_integer_list(sizes) and sizes and row == [] for sizes, row in zip(dims, strides, strict=False))


def _parse_sizes(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number.strip().isdecimal()]


def _parse_argument(kind: Any, dims: Any, strides: Any, concrete: Any) -> Arg:
    dtype = BY_TRACE_NAME.get(kind) if isinstance(kind, str) else None
    if dtype is not None:
        return _make_tensor(dims, strides, dtype.name)
    if kind == _TENSOR:
        return _make_tensor(dims, strides, UNKNOWN)
    if kind == _TENSOR_LIST and isinstance(dims, list):
        if not dims and strides is None:
            return None  # versions that recorded no strides recorded no sizes of lists either
        rows = strides if isinstance(strides, list) and len(strides) == len(dims) else [None] * len(dims)
        return tuple(_make_tensor(sizes, row, UNKNOWN) for sizes, row in zip(dims, rows, strict=True))
    return _parse_literal(concrete) if isinstance(concrete, str) else None


def _make_tensor(dims: Any, strides: Any, dtype: str) -> TensorArg | None:
    if not _is_integer_list(dims) or min(dims, default=0) < 0 or math.prod(dims) > _MOST_ELEMENTS:
        return None
    shape = tuple(dims)
    if _is_integer_list(strides) and len(strides) == len(shape):
        return TensorArg(shape, tuple(strides), dtype)
    return TensorArg(shape, compute_contiguous_strides(shape), dtype)


def _is_integer_list(value: Any) -> bool:
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        return False
    return not value or (max(value) < _LONGEST_INTEGER and min(value) > -_LONGEST_INTEGER)


def compute_contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor whose last dimension varies fastest."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _parse_literal(text: str) -> Arg:
    """`"0.5"`, `"True"` or `"[1, 2]"`; anything else (an absent value, a device, a name) is None."""
    if text.startswith("[") and text.endswith("]"):
        inner = text[1:-1].strip()
        return tuple(_parse_scalar(item.strip()) for item in inner.split(",")) if inner else ()
    return _parse_scalar(text)


def _parse_scalar(text: str) -> Scalar:
    if text in _SCALARS:
        return _SCALARS[text]
    try:
        number = int(text)
    except ValueError:
        pass
    else:
        return number if abs(number) < _LONGEST_INTEGER else None
    try:
        return float(text)
    except ValueError:
        return None
