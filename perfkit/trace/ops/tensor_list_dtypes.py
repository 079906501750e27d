"""Dtypes of tensor lists, which traces omit: inferred from evidence, or unknown.

Evidence, strongest first: the ops that the one in question calls work on tensors of the same shapes; an op around or
beneath has such tensors; the kernel it launched names a type; autograd accumulated gradients of such shapes; all
tensors of such shapes in the trace have the same dtype. A kernel that only moves tells the size of an element.
"""

import re
from collections.abc import Iterable

from perfkit.cost.calls.args import Args, walk_tensors
from perfkit.cost.calls.dtypes import BY_NAME, OPAQUE, UNKNOWN
from perfkit.cost.calls.op_call import Arg, TensorArg

_KERNEL_TYPES = (
    (re.compile(r"\b(c10::)?BFloat16\b|\bbf16\b|__nv_bfloat16"), "bf16"),
    (re.compile(r"\b(c10::)?Half\b|\b__half\b"), "fp16"),
    (re.compile(r"\bdouble\b"), "fp64"),
    (re.compile(r"\bfloat\b"), "fp32"),
)

_OPAQUE = re.compile(r"\bOpaqueType<(\d{1,9})u?>")

Evidence = dict[tuple[int, ...], set[str]]


def find_unknown_shapes(args: Args) -> frozenset[tuple[int, ...]]:
    """The shapes of the tensors without a dtype, none where all are known."""
    return frozenset(tensor.shape for tensor in walk_tensors(args) if tensor.dtype == UNKNOWN)


def collect_dtypes(evidence: Evidence, args: Args) -> None:
    """Add the dtypes of the tensors that have one."""
    for tensor in walk_tensors(args):
        if tensor.dtype != UNKNOWN:
            evidence.setdefault(tensor.shape, set()).add(tensor.dtype)


def infer_from_shapes(evidence: Evidence, shapes: Iterable[tuple[int, ...]]) -> str:
    """The one dtype that fits the known tensors of all these shapes: the tensors of a list have the same dtype.

    Unknown where no tensor has such a shape, or where several dtypes fit.
    """
    seen = [evidence[shape] for shape in shapes if shape in evidence]
    fitting = set.intersection(*seen) if seen else set()
    return next(iter(fitting)) if len(fitting) == 1 else UNKNOWN


def infer_from_kernels(names: Iterable[str]) -> str:
    """The dtype that kernels' template arguments name, if they name only one."""
    dtypes = {dtype for name in names for pattern, dtype in _KERNEL_TYPES if pattern.search(name)}
    # Reduced precision accumulates in float: the narrower type is that of the tensors.
    dtypes -= {"fp32"} if len(dtypes) > 1 else set()
    return next(iter(dtypes)) if len(dtypes) == 1 else UNKNOWN


def adjust_to_kernels(dtype: str, names: Iterable[str]) -> str:
    """`dtype`, or one of the size that kernels are made for, where the dtype is not known or of another size."""
    sizes = {int(match[1]) for name in names for match in _OPAQUE.finditer(name)}
    size = next(iter(sizes)) if len(sizes) == 1 else None
    if size is None or size not in OPAQUE or (dtype and BY_NAME[dtype].size == size):
        return dtype
    return OPAQUE[size].name


def fill_dtype(args: Args, dtype: str) -> Args:
    """The arguments with `dtype` for every tensor that has none."""
    return tuple(_fill_arg(arg, dtype) for arg in args)


def _fill_arg(value: Arg, dtype: str) -> Arg:
    if isinstance(value, TensorArg):
        return value._replace(dtype=dtype) if value.dtype == UNKNOWN else value
    return tuple(_fill_arg(item, dtype) for item in value) if isinstance(value, tuple) else value
