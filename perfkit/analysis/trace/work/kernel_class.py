"""Classes of kernels: those of their ops, else by the kernels' names."""

import re

from perfkit.analysis.trace.work.inferred_calls import INFERRED
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.kernels.gemm_kernel import is_gemm
from perfkit.cost.op_class import classify_op
from perfkit.trace.ops.kernels import is_collective_kernel

# Of a kernel that no op is known for, by its own name; the first that it contains.
_BY_KERNEL: tuple[tuple[str, OpClass], ...] = (
    ("attention", OpClass.ATTENTION),
    ("flash", OpClass.ATTENTION),
    ("fmha", OpClass.ATTENTION),
    ("softmax", OpClass.SOFTMAX),
    ("norm", OpClass.NORM),
    ("implicit_gemm", OpClass.CONVOLUTION),
    ("gemm", OpClass.MATMUL),
    ("cublas", OpClass.MATMUL),
    ("cutlass", OpClass.MATMUL),
    ("cijk_", OpClass.MATMUL),
    ("conv", OpClass.CONVOLUTION),
    ("multi_tensor", OpClass.OPTIMIZER),
    ("reduce", OpClass.REDUCTION),
    ("elementwise", OpClass.POINTWISE),
)
_AN_OP = re.compile(r"[A-Za-z_]\w*::[\w.]+")


def classify_kernel(name: str) -> OpClass:
    """The class of a kernel without an op; for a kernel named like an op (`fbgemm::lookup`), that op's."""
    if is_collective_kernel(name):
        return OpClass.COMMUNICATION
    if _AN_OP.fullmatch(name.removesuffix(INFERRED)):
        return classify_op(name.removesuffix(INFERRED))
    lower = name.lower()
    named = next((kind for part, kind in _BY_KERNEL if part in lower), None)
    return named or (OpClass.MATMUL if is_gemm(name) else classify_op(name))


def classify_work(op: str, name: str) -> OpClass:
    """The class of an op, or of a kernel by its `op`, else by its own name."""
    known = classify_op((op or name).removesuffix(INFERRED))
    return classify_kernel(name) if known == OpClass.OTHER else known
