"""Triton kernels of torch.compile: bytes from their recorded arguments, FLOPs from their names.

The profiler records the tensors that a kernel was launched with and its sizes (`xnumel`, `r0_numel`), not which
tensors are read and which are written; each is taken to move once. A tensor may be a large buffer of which the kernel
touches a part, so it counts at most as many elements as the kernel's space of iterations has. That is a lower bound
where a kernel reads a tensor at several places.

A kernel that overwrites one of its inputs is launched with it once (`in_out_ptr0` of its source, which no trace
records). A pointwise one has to where its name needs as many full-size inputs as it has full-size tensors: the product
before a bias, both sides of a gate, a gradient and what it is multiplied by. That tensor moves twice. Where the name
only allows it (`add` of two tensors, or of one and a number into another), the bytes have a least and a most.

The name lists the ops that were fused, each once and at most ten of them. FLOPs are those ops' counts over the space
of iterations; they are unknown where the name holds an op without a count, or none at all.
"""

import math
import re
from collections.abc import Iterator
from functools import lru_cache

from perfkit.cost.calls.args import (
    count_distinct_bytes,
    get_element_size,
    infer_result_dtype,
    make_matrix_cost,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg
from perfkit.cost.formulas.elementwise_ops import FLOPS_PER_ELEMENT

_NAME = re.compile(r"triton_(?P<kind>poi|red|per|tem|for|mm|bmm|unk|mix|spl)_?(?:fused_?)?(?P<ops>.*?)(?:_?\d+)?$")

_POINTWISE, _REDUCTIONS, _TEMPLATES = ("poi",), ("red", "per", "mix"), ("tem", "mm", "bmm")

# Data movement, views, and ops whose product another kernel computed while this one prepares or finishes it.
_MOVING = (
    "_to_copy to copy copy_ clone cat stack view _unsafe_view reshape permute transpose t expand unsqueeze squeeze"
    " slice select split split_with_sizes unbind index index_put index_select gather scatter embedding zeros ones"
    " full zeros_like ones_like full_like empty new_zeros new_ones fill arange iota constant_pad_nd detach lift"
    " lift_fresh_copy alias as_strided repeat tril triu flip roll slice_backward select_backward slice_scatter"
    " select_scatter bernoulli rand randn rand_like randn_like inductor_random inductor_seeds nll_loss_forward"
    " nll_loss_backward embedding_dense_backward convolution convolution_backward mm addmm bmm baddbmm"
    " unsafe_split diagonal unfold squeeze_ any all max_pool2d_with_indices argsort sort topk"
    " scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention"
    " device_put prims convert_element_type backward forward view_as movedim chunk scalar_tensor new_empty"
    " lift_fresh _unsafe_index _unsafe_masked_index scatter_add index_add repeat_interleave _scaled_mm _grouped_mm"
    " _flash_attn_forward _flash_attn_backward _flash_attention_forward _flash_attention_backward"
    " _scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward"
    " _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward"
    " unified_attention_with_output unified_attention moe_forward all_reduce all_gather_into_tensor"
    " reduce_scatter_tensor wait_tensor"
)

# FLOPs per element of the space of iterations, of ops besides the element-wise ones.
_COUNTS = {
    **FLOPS_PER_ELEMENT,
    **dict.fromkeys(("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "cumsum"), 1),
    **dict.fromkeys(("var", "std", "var_mean", "logsumexp"), 4),
    **dict.fromkeys(("_softmax", "_log_softmax", "_safe_softmax"), 5),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), 4),
    **dict.fromkeys(("native_layer_norm", "native_batch_norm", "native_group_norm", "_native_batch_norm_legit"), 8),
    "_native_batch_norm_legit_functional": 8,
    "_native_batch_norm_legit_no_training": 4,
    **dict.fromkeys(("native_layer_norm_backward", "native_batch_norm_backward", "native_group_norm_backward"), 14),
    **dict.fromkeys(("_fused_rms_norm", "rms_norm"), 4),
    "_fused_rms_norm_backward": 9,
    "prepare_softmax_online": 0,  # the first part of the softmax that is named beside it
    **dict.fromkeys(("native_dropout", "native_dropout_backward", "linalg_vector_norm"), 2),
    "mse_loss": 3,
    # Data movement, views, and ops in other kernels (a GEMM whose bias or output is used here).
    **dict.fromkeys(_MOVING.split(), 0),
}
# Full-size inputs that an op needs at least: the product that a bias is added to, a gradient and what it meets.
_READ_IN_FULL = {
    **dict.fromkeys(("addmm", "baddbmm", "convolution", "mm", "bmm"), 1),
    **dict.fromkeys(
        (
            "threshold_backward",
            "silu_backward",
            "gelu_backward",
            "sigmoid_backward",
            "tanh_backward",
            "hardtanh_backward",
        ),
        2,
    ),
}
_ACTIVATIONS = frozenset({"silu", "gelu"})  # times another tensor: a gated unit
_COMBINING = frozenset({"add", "sub", "mul", "div", "maximum", "minimum", "where"})
_LONGEST = max(name.count("_") + 1 for name in _COUNTS)

# An unrolled reduction, a window or a split into halves: a point reads more than one element of a tensor.
_SEVERAL = re.compile(r"sum|mean|amax|amin|max|min|var|norm|softmax|pool|upsample|unfold|conv|split|chunk|glu|prod|any")
_PLACED = re.compile(r"zeros|ones|full|fill|rand|arange|empty|iota|bernoulli")


def is_triton_kernel(name: str) -> bool:
    """True if the name is of a Triton kernel generated by torch.compile."""
    return name.startswith("triton_") and _NAME.match(name) is not None


@lru_cache(maxsize=8192)
def parse_fused_ops(name: str) -> tuple[str, ...] | None:
    """The ops that a kernel's name lists: `triton_poi_fused_add_native_dropout_3` gives add and native_dropout.

    None where part of the name is no op with a count.
    """
    parsed = _NAME.match(name)
    words = parsed["ops"].split("_") if parsed is not None and parsed["ops"] else []
    return _split_words(tuple(words))


def _split_words(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """The words as names of ops, longer names first; an underscore at the beginning of a name is an empty word."""
    ops: list[str] = []
    at = 0
    while at < len(words):
        for length in range(min(_LONGEST + 1, len(words) - at), 0, -1):
            candidate = "_".join(words[at : at + length])
            if candidate in _COUNTS:
                ops.append(candidate)
                at += length
                break
        else:
            return None
    return tuple(ops)


def cost_compiled_kernel(call: OpCall) -> OpCost | None:
    """FLOPs and bytes of a launch of a generated kernel; None where its arguments were not recorded."""
    parsed = _NAME.match(call.name)
    tensors = tuple(walk_tensors(call.args))
    if parsed is None or not tensors:
        return None
    dtype = infer_result_dtype([operand for operand in tensors if operand.shape] or tensors)
    if parsed["kind"] in _TEMPLATES:
        return _cost_template(parsed["ops"] or parsed["kind"], tensors, dtype)
    sizes = [value for value in call.args if isinstance(value, int) and not isinstance(value, bool) and value > 0]
    if not sizes or parsed["kind"] not in (*_POINTWISE, *_REDUCTIONS):
        return _make_kernel_cost(None, sum(map(count_distinct_bytes, tensors)), dtype)
    space = _find_iteration_space(sizes, tensors)
    several = parsed["kind"] in _POINTWISE and _SEVERAL.search(parsed["ops"]) is not None
    nbytes = sum(_count_touched_bytes(operand, math.inf if several else space) for operand in tensors)
    ops = parse_fused_ops(call.name)
    flops = float(space * sum(_COUNTS[op] for op in ops)) if ops else None
    if len(tensors) == 1 and not _PLACED.search(parsed["ops"]):
        return _make_kernel_cost(flops, 2 * nbytes, dtype)  # the only tensor is both read and written
    # Of a convolution only the bias is left in such a kernel, and no window.
    if parsed["kind"] in _POINTWISE and ops and not any(_SEVERAL.search(op) for op in ops if op != "convolution"):
        surely, perhaps = _count_overwritten_bytes(ops, tensors, space)
        cost = _make_kernel_cost(flops, nbytes + surely, dtype)
        return cost._replace(most_bytes=nbytes + perhaps) if cost.bytes is not None and perhaps > surely else cost
    return _make_kernel_cost(flops, nbytes, dtype)


def _count_overwritten_bytes(ops: tuple[str, ...], tensors: tuple[TensorArg, ...], space: int) -> tuple[float, float]:
    """The least and the most bytes of an input that is written, too: of the first full-size tensor, where Inductor puts
    it."""
    full = [value for value in tensors if numel(value) == space]
    if not full or any(numel(value) > space for value in tensors):
        return 0.0, 0.0
    written = _count_touched_bytes(full[0], space)
    surely_read = max((_READ_IN_FULL.get(op, 0) for op in ops), default=0)
    if "mul" in ops and not _ACTIVATIONS.isdisjoint(ops):
        surely_read = 2
    if len(full) <= surely_read:
        return written, written
    leaves = 1 + sum(op in _COMBINING for op in ops)
    return 0.0, written if len(tensors) <= leaves else 0.0


def _make_kernel_cost(flops: float | None, nbytes: float, dtype: str) -> OpCost:
    """A cost without matrix products whose FLOPs may be unknown."""
    known = make_vector_cost(flops or 0.0, nbytes, dtype, "compiled kernel: arguments and name")
    return known if flops is not None else known._replace(flops=None)


def _count_touched_bytes(value: TensorArg, space: float) -> float:
    """Bytes of the distinct elements, at most one for every point."""
    return min(count_distinct_bytes(value), space * get_element_size(value.dtype)) if numel(value) else 0.0


def _find_iteration_space(sizes: list[int], tensors: tuple[TensorArg, ...]) -> int:
    """Points of a kernel: the product of its last sizes.

    Symbolic sizes precede them where shapes are dynamic, so the longest product that is the size of a tensor is taken,
    and all of them where none is.
    """
    elements = {numel(operand) for operand in tensors}
    products = [math.prod(sizes[start:]) for start in range(len(sizes))]
    return next((product for product in products if product in elements), products[0])


def _cost_template(ops: str, tensors: tuple[TensorArg, ...], dtype: str) -> OpCost:
    """Cost a GEMM template: the operands are the pair whose product is one of the other tensors."""
    nbytes = sum(map(count_distinct_bytes, tensors))
    products = set(_find_products(tensors)) if re.search(r"mm", ops) else set()
    flops = products.pop() if len(products) == 1 else None
    known = make_matrix_cost(flops or 0.0, nbytes, dtype, "compiled kernel: operands")
    return known if flops is not None else known._replace(flops=None)


def _find_products(tensors: tuple[TensorArg, ...]) -> Iterator[float]:
    for at, a in enumerate(tensors):
        for b in tensors[at + 1 :]:
            if not 2 <= len(a.shape) == len(b.shape) <= 3 or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
                continue
            outputs = numel(a) // max(a.shape[-1], 1) * b.shape[-1]
            if any(numel(c) == outputs and c is not a and c is not b for c in tensors):
                yield 2.0 * outputs * a.shape[-1]
