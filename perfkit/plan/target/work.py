"""The work of an op call that determines its time."""

from typing import NamedTuple

from perfkit.analysis.trace.roofline.matmul_operands import describe_layout, list_contiguous_sizes, parse_matmul_sizes
from perfkit.analysis.trace.roofline.roofline import COMPUTE, MEMORY
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.cost.calls.dtypes import BY_NAME
from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpClass, OpCost, TensorArg
from perfkit.cost.kernels.fp32_products import resolve_compute_dtype
from perfkit.cost.op_class import classify_op
from perfkit.devices.ceilings.peak import Fp32Settings

# Kinds of matrix products that take far longer than others: of 16-bit operands whose rows do not begin at multiples of
# 16 bytes, for which GPUs have other kernels; and batches of matrices smaller than the tiles that a unit multiplies.
UNALIGNED, SMALL = "GEMM, unaligned", "GEMM of small matrices"
_ALIGNED_BYTES, _SMALLEST_TILE = 16, 16


class Work(NamedTuple):
    """One call: the class of its op, FLOPs and compulsory bytes.

    `dtype` is what it is computed in, `matrix` whether on the units for matrices: both select the peak. `op` is its
    name, "" where that is not known.
    """

    op_class: str
    dtype: str
    flops: float
    bytes: float
    matrix: bool
    op: str = ""


_LIKE = {UNALIGNED: OpClass.MATMUL, SMALL: OpClass.MATMUL}


def get_op_class(work: Work) -> str:
    """The class as traces and reports have it (`OpClass`): only efficiencies tell kinds of products apart."""
    return _LIKE.get(work.op_class, work.op_class)


def make_work(call: OpCall, cost: OpCost, fp32: Fp32Settings | None = None) -> Work | None:
    """The work of a call with its cost; None where its bytes, or the FLOPs of a matrix product, are not modeled.

    Vector work of unknown FLOPs counts as none, as its bytes take longer. `fp32` are the settings of a GPU, None where
    products of fp32 are computed in fp32.
    """
    matrix = cost.unit == ComputeUnit.MATRIX
    if cost.bytes is None or (matrix and cost.flops is None):
        return None
    dtype = resolve_compute_dtype(call.name, cost.dtype, fp32) if matrix else cost.dtype
    return Work(_classify_call(call, cost.dtype), dtype, cost.flops or 0.0, cost.bytes, matrix, call.name)


def _classify_call(call: OpCall, dtype: str) -> str:
    kind = classify_op(call.name)
    if kind != OpClass.MATMUL or dtype not in BY_NAME or BY_NAME[dtype].size != 2:
        return kind
    product = parse_matmul_sizes(call.name, call.args)
    if product is not None and product.batch > 1 and min(product.m, product.n, product.k) < _SMALLEST_TILE:
        return SMALL
    rows = list_contiguous_sizes(
        call.name, [arg.shape for arg in call.args if isinstance(arg, TensorArg)], describe_layout(call.name, call.args)
    )
    return UNALIGNED if any(size * 2 % _ALIGNED_BYTES for size in rows) else kind


# Whose peak stands in for one that is not known: what is measured over it tells the time all the same.
_USUAL = "fp32"


class LeastTime(NamedTuple):
    """The least time that work can take by the ceilings, and which bounds it (`compute`, `memory`).

    `stands_in`: the peak of the dtype is not known, and that of fp32 is no bound on such work.
    """

    seconds: float
    bound: str
    stands_in: bool = False


def compute_least_time(work: Work, roofs: Roofs) -> LeastTime | None:
    """FLOPs over the peak or bytes over the memory's bandwidth, whichever takes longer; None without such a ceiling.

    What a cache serves takes less. The FLOPs of vector work in a dtype without a peak are left out.
    """
    memory, unit = roofs.find_bandwidth(), ComputeUnit.MATRIX if work.matrix else ComputeUnit.VECTOR
    own = roofs.compute(unit, work.dtype)
    stands_in = own is None and work.matrix
    compute = roofs.compute(unit, _USUAL) if stands_in else own
    if memory is None or (compute is None and work.matrix):
        return None
    moving = work.bytes / memory.value
    computing = 0.0 if compute is None else work.flops / compute.value
    seconds, bound = (computing, COMPUTE) if computing > moving else (moving, MEMORY)
    return LeastTime(seconds, bound, stands_in)
