"""Element types: short name, size, and aliases in torch and its traces. Does not import torch."""

from typing import NamedTuple


class Dtype(NamedTuple):
    """`code` is the number of c10::ScalarType, which traces show for dtype arguments; `peak` the name ceilings use."""

    name: str
    size: int
    code: int
    torch_name: str
    trace_names: tuple[str, ...]
    rank: int  # order of promotion: bool 0, integer 1, floating 2, complex 3
    peak: str


_DTYPES = (
    Dtype("bool", 1, 11, "bool", ("bool", "Bool"), 0, "bool"),
    Dtype("uint8", 1, 0, "uint8", ("unsigned char", "Byte", "c10::quint8"), 1, "int8"),
    Dtype("int8", 1, 1, "int8", ("signed char", "Char", "c10::qint8"), 1, "int8"),
    Dtype("int16", 2, 2, "int16", ("short", "short int", "Short"), 1, "int16"),
    Dtype("uint16", 2, 27, "uint16", ("unsigned short", "short unsigned int"), 1, "int16"),
    Dtype("int32", 4, 3, "int32", ("int", "Int", "c10::qint32"), 1, "int32"),
    Dtype("uint32", 4, 28, "uint32", ("unsigned int",), 1, "int32"),
    Dtype("int64", 8, 4, "int64", ("long", "long int", "long long", "Long", "__int64"), 1, "int64"),
    Dtype("uint64", 8, 29, "uint64", ("unsigned long", "long unsigned int", "unsigned __int64"), 1, "int64"),
    Dtype("fp8_e5m2", 1, 23, "float8_e5m2", ("c10::Float8_e5m2", "Float8_e5m2"), 2, "fp8"),
    Dtype("fp8_e4m3", 1, 24, "float8_e4m3fn", ("c10::Float8_e4m3fn", "Float8_e4m3fn"), 2, "fp8"),
    Dtype("fp8_e5m2fnuz", 1, 25, "float8_e5m2fnuz", ("c10::Float8_e5m2fnuz", "Float8_e5m2fnuz"), 2, "fp8"),
    Dtype("fp8_e4m3fnuz", 1, 26, "float8_e4m3fnuz", ("c10::Float8_e4m3fnuz", "Float8_e4m3fnuz"), 2, "fp8"),
    Dtype("fp8_e8m0", 1, 44, "float8_e8m0fnu", ("c10::Float8_e8m0fnu",), 2, "fp8"),
    Dtype("bf16", 2, 15, "bfloat16", ("c10::BFloat16", "BFloat16"), 2, "bf16"),
    Dtype("fp16", 2, 5, "float16", ("c10::Half", "Half"), 2, "fp16"),
    Dtype("fp32", 4, 6, "float32", ("float", "Float"), 2, "fp32"),
    Dtype("fp64", 8, 7, "float64", ("double", "Double"), 2, "fp64"),
    Dtype("complex32", 4, 8, "complex32", ("c10::complex<c10::Half>",), 3, "fp16"),
    Dtype("complex64", 8, 9, "complex64", ("c10::complex<float>",), 3, "fp32"),
    Dtype("complex128", 16, 10, "complex128", ("c10::complex<double>",), 3, "fp64"),
)

# Types of copy kernels, instantiated by element size (`OpaqueType<2u>`).
OPAQUE = {size: Dtype(f"{size}-byte", size, -size, "", (), 1, "") for size in (1, 2, 4, 8, 16)}

BY_NAME = {dtype.name: dtype for dtype in (*_DTYPES, *OPAQUE.values())}
BY_CODE = {dtype.code: dtype for dtype in _DTYPES}
BY_TORCH_NAME = {dtype.torch_name: dtype for dtype in _DTYPES}
BY_TRACE_NAME = {name: dtype for dtype in _DTYPES for name in dtype.trace_names}

# An unrecorded dtype: lists of tensors have none in traces.
UNKNOWN = ""


def is_floating(name: str) -> bool:
    """True if the dtype is floating-point; unknown dtypes count as such."""
    return name == UNKNOWN or BY_NAME[name].rank >= 2


def is_complex(name: str) -> bool:
    """True if the dtype is complex; unknown dtypes count as real."""
    return name != UNKNOWN and BY_NAME[name].rank == 3


def get_peak_name(name: str) -> str:
    """The name under which ceilings list this dtype: both kinds of 8-bit floats are `fp8`."""
    return BY_NAME[name].peak if name in BY_NAME else name


def promote_dtypes(first: str, second: str) -> str:
    """The dtype of an operation on two tensors, neither of which is a scalar (torch's type promotion)."""
    if UNKNOWN in (first, second):
        return first or second
    a, b = BY_NAME[first], BY_NAME[second]
    if a.rank != b.rank:
        return max(a, b, key=lambda dtype: dtype.rank).name
    if {first, second} == {"bf16", "fp16"}:
        return "fp32"
    return max(a, b, key=lambda dtype: dtype.size).name
