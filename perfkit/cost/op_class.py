"""Classes of ops, for rules and statistics that speak of kinds of work instead of single ops."""

import re
from functools import lru_cache

from perfkit.cost.calls.op_call import OpClass

# Patterns on the op's name without its namespace and trailing underscore; the first that matches the whole of it.
_CLASSES: tuple[tuple[OpClass, str], ...] = (
    (OpClass.COMPILED, r"triton_.*|(graph_\d+_)?cpp_fused.*|kernel_cpp.*"),
    (OpClass.COMMUNICATION, r"(nccl|rccl|gloo|mpi|ucc|xccl):?.*|.*all_?reduce.*|.*all_?gather.*|.*reduce_scatter.*"),
    (OpClass.REDUCTION, r"_foreach_(norm|max)"),  # of clipping, as a rule
    (OpClass.OPTIMIZER, r"_fused_(adam|sgd|adagrad|lamb).*|_foreach_.*|.*multi_?tensor.*|optimizer_update_.*"),
    (
        OpClass.ATTENTION,
        r".*(scaled_dot_product|flash_att|efficient_att|_attention_(for|back)ward|fmha|flash_(f|b)wd).*",
    ),
    (OpClass.CONVOLUTION, r".*conv(olution|_transpose)?\d?d?(_.*|$)"),
    (
        OpClass.MATMUL,
        r"(b|add|badd|_scaled_|_int_|_?grouped_)?(b?mm|mv)|addbmm|matmul|einsum|(mkldnn_)?linear(_backward)?|"
        r".*gemm.*",
    ),
    (OpClass.SOFTMAX, r"(_log|log|_masked|_safe)?_?softmax.*"),
    (OpClass.NORM, r".*(batch|layer|group|instance|rms)_?norm.*"),
    (OpClass.LOSS, r".*(nll_loss|cross_entropy|(mse|l1|huber|smooth_l1|ctc)_loss|kl_div|bce).*"),
    (
        OpClass.INDEX,
        r".*embedding.*|_?index.*|_index_put_impl|gather.*|scatter.*|take.*|_?unsafe_index.*|"
        r"masked_select|nonzero.*",
    ),
    (
        OpClass.COPY,
        r"copy|_?to(_copy)?|clone|contiguous|_?cat|stack|pad|constant_pad_nd|roll|flip|fill|zero|"
        r"zeros|ones|full",
    ),
    (
        OpClass.REDUCTION,
        r"sum|mean|amax|amin|max|min|argmax|argmin|var|std|var_mean|norm|linalg_vector_norm|"
        r"prod|cumsum|any|all",
    ),
    (
        OpClass.POINTWISE,
        r"add|sub|rsub|mul|div|addcmul|addcdiv|lerp|pow|exp|expm1|log|log1p|sqrt|rsqrt|reciprocal|"
        r"neg|abs|sign|round|floor|ceil|trunc|frac|sin|cos|tanh|erf|sigmoid|relu|gelu|silu|mish|elu|selu|leaky_relu|hardswish|"
        r"hardtanh|hardsigmoid|softplus|threshold|clamp.*|where|maximum|minimum|masked_fill|"
        r"eq|ne|lt|le|gt|ge|logical_.*|bitwise_.*|(native_)?dropout|bernoulli|triu|tril|"
        r"(relu|gelu|silu|mish|tanh|sigmoid|elu|threshold|leaky_relu|hardswish|hardtanh|softplus|"
        r"native_dropout)_backward",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _CLASSES)


@lru_cache(maxsize=65536)
def classify_op(name: str) -> OpClass:
    """The class of an op by its name as recorded (`aten::mm`); compiled and collective kernels go by their own."""
    bare = name.rpartition("::")[2].removesuffix("_")
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(bare)), OpClass.OTHER)
