"""Classes of ops, for rules and statistics that speak of kinds of work instead of single ops."""

import re
from functools import lru_cache

from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.formula_table import OPS
from perfkit.cost.formulas.packages.flashinfer import find_module_formula

# Of ops that are not declared (compositions, those of other packages), and of compiled and collective kernels. Patterns
# on the name without its namespace and trailing underscore; the first that matches the whole of it.
_CLASSES: tuple[tuple[OpClass, str], ...] = (
    (OpClass.COMPILED, r"triton_.*|(graph_\d+_)?cpp_fused.*|kernel_cpp.*"),
    (OpClass.COMMUNICATION, r"(nccl|rccl|gloo|mpi|ucc|xccl):?.*|.*all_?reduce.*|.*all_?gather.*|.*reduce_scatter.*"),
    (OpClass.OPTIMIZER, r"_fused_(adam|sgd|adagrad|lamb).*|_foreach_.*|.*multi_?tensor.*|optimizer_update_.*"),
    (
        OpClass.ATTENTION,
        r".*(scaled_dot_product|flash_att|efficient_att|_attention_(for|back)ward|fmha|flash_(f|b)wd).*",
    ),
    (OpClass.CONVOLUTION, r".*conv(olution|_transpose)?\d?d?(_.*|$)"),
    (OpClass.MATMUL, r"grouped_mm|matmul|einsum|(mkldnn_)?linear(_backward)?|.*gemm.*"),
    (OpClass.SOFTMAX, r"(_log|log|_masked|_safe)?_?softmax.*"),
    (OpClass.NORM, r".*(batch|layer|group|instance|rms)_?norm.*"),
    (OpClass.LOSS, r".*(nll_loss|cross_entropy|(mse|l1|huber|smooth_l1|ctc)_loss|kl_div|bce).*"),
    (OpClass.INDEX, r".*embedding.*|_?index.*|gather.*|scatter.*|take.*|_?unsafe_index.*|nonzero.*"),
    (OpClass.COPY, r"_?to(_copy)?|contiguous|pad"),
    (OpClass.POINTWISE, r"selu|dropout|relu_backward|clamp.*|logical_.*|bitwise_.*"),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _CLASSES)


def _get_bare_name(name: str) -> str:
    return name.rpartition("::")[2].removesuffix("_")


_DECLARED = {_get_bare_name(name): op.op_class for name, op in OPS.items()}


@lru_cache(maxsize=65536)
def classify_op(name: str) -> OpClass:
    """The class of an op by its name as recorded (`aten::mm`); compiled and collective kernels go by their own."""
    if find_module_formula(name) is not None:
        return OpClass.ATTENTION
    bare = _get_bare_name(name)
    return _DECLARED.get(bare) or next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(bare)), OpClass.OTHER)
