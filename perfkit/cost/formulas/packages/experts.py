"""Mixtures of experts: vLLM, SGLang, FlashInfer, and aiter through vLLM.

Routing decides which experts' weights are read: the bytes are given from the least to the most. FLOPs as in the
families of torch's own ops.

Signatures: csrc/moe/torch_bindings.cpp, csrc/libtorch_stable/torch_bindings.cpp, vllm/_aiter_ops.py and
vllm/model_executor/layers/fused_moe/fused_moe.py of vLLM, python/sglang/srt/layers/moe/fused_moe_triton/fused_moe.py
and sgl-kernel/csrc/common_extension.cc of SGLang, csrc/trtllm_fused_moe_kernel_launcher.cu of FlashInfer.
"""

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_distinct_bytes,
    count_output_bytes,
    count_read_bytes,
    get_element_size,
    get_integer,
    get_optional_tensor,
    get_tensor,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import Flops, OpFamily
from perfkit.cost.formulas.packages.quantized_products import (
    find_size_arguments,
    get_inner_size,
    make_product_cost,
)

OPS = OpFamily(OpClass.MATMUL)

_ROUTED = "experts: routing depends on data"
_ROUTER = "router"
_SOFTMAX, _SIGMOID, _SOFTPLUS_ROOT = 5, 4, 4  # FLOPs of a score


@OPS.formula(
    "vllm::inplace_fused_experts vllm::outplace_fused_experts sglang::inplace_fused_experts"
    " sglang::outplace_fused_experts vllm::rocm_aiter_fused_moe vllm::rocm_aiter_asm_moe_tkw1"
)
def _cost_fused_experts(args: Args) -> OpCost:
    """fused_experts(hidden (tokens, k), w1 (experts, 2 n or n, k), w2 (experts, k, n), topk_weights, topk_ids, ...):
    two products for each token and expert that it goes to.

    Weights of 4 bits are packed in pairs. The weights of at least as many experts are read as a token goes to, at most
    of all. With a map of experts, of which others are on other ranks, the products of this rank are data, too.
    """
    hidden, w1, w2 = get_tensor(args, 0, 2), get_tensor(args, 1, 3), get_tensor(args, 2, 3)
    weights, ids = get_tensor(args, 3, 2), get_optional_tensor(args, 4)
    (tokens, k), chosen, experts = hidden.shape, weights.shape[1], w1.shape[0]
    inner = w2.shape[2] * (2 if w1.shape[2] * 2 == k else 1)
    flops = 2.0 * tokens * chosen * (w1.shape[1] * k + w2.shape[1] * inner)
    expert = (numel(w1) * get_element_size(w1.dtype) + numel(w2) * get_element_size(w2.dtype)) / max(experts, 1)
    around = count_read_bytes(hidden, weights, ids) + count_output_bytes(numel(hidden), hidden.dtype)
    elsewhere = any(_is_expert_map(args, index) for index in range(5, len(args)))
    least, most = (0 if elsewhere else min(chosen, experts)), min(experts, tokens * chosen)
    cost = _make_routed_cost(flops, around, expert, (least, most), hidden)
    return cost._replace(flops=None) if elsewhere else cost


def _is_expert_map(args: Args, index: int) -> bool:
    value = get_optional_tensor(args, index)
    return value is not None and len(value.shape) == 1 and value.dtype in ("int32", "int64") and numel(value) > 1


def _make_routed_cost(flops: float, around: float, expert: float, read: tuple[int, int], x: TensorArg) -> OpCost:
    """A cost that reads `x` and the weights, of `expert` bytes each, of at least and at most so many experts."""
    least, most = read
    cost = make_product_cost(flops, around + expert * least, x, _ROUTED)
    return cost._replace(most_bytes=around + expert * most if most > least else None)


def _make_grouped(a_at: int, b_at: int) -> Formula:
    """grouped_mm(out (rows, n), ..., a (rows, k), b (experts, ...), ...): each row meets one expert."""

    def formula(args: Args) -> OpCost:
        out, a, b = get_tensor(args, 0, 2), get_tensor(args, a_at, 2), get_tensor(args, b_at)
        rows, experts = out.shape[0], b.shape[0]
        around = count_read_bytes(a) + count_output_bytes(numel(out), out.dtype)
        expert = count_distinct_bytes(b) / max(experts, 1)
        flops = 2.0 * numel(out) * get_inner_size(a)
        return _make_routed_cost(flops, around, expert, (min(rows, 1), min(rows, experts)), a)

    return formula


@OPS.formula("_moe_C::moe_wna16_gemm")
def _cost_few_bits(args: Args) -> OpCost:
    """moe_wna16_gemm(input (tokens or routes, k), out (tokens, top_k, n), weight (experts, n, ...), ...)."""
    x, out, weight = get_tensor(args, 0, 2), get_tensor(args, 1, 3), get_tensor(args, 2, 3)
    routes, experts = out.shape[0] * out.shape[1], weight.shape[0]
    around = count_read_bytes(x) + count_output_bytes(numel(out), out.dtype)
    read = min(out.shape[1], experts), min(routes, experts)
    flops = 2.0 * numel(out) * x.shape[1]
    return _make_routed_cost(flops, around, count_distinct_bytes(weight) / max(experts, 1), read, x)


@OPS.formula("_moe_C::moe_wna16_marlin_gemm sgl_kernel::moe_wna16_marlin_gemm")
def _cost_marlin(args: Args) -> OpCost:
    """moe_wna16_marlin_gemm(a (m, k), out, weight (experts, ...), ..., block_size, top_k, mul_topk_weights, [is_ep,]
    b_type_id, size_m, size_n, size_k, ...): each row meets top_k experts. With other experts on other ranks (`is_ep`)
    the products of this rank are data."""
    a, weight, at = get_tensor(args, 0, 2), get_tensor(args, 2), find_size_arguments(args, get_tensor(args, 0, 2))
    flags = [index for index in range(at - 3, at - 1) if isinstance(args[index], bool)]
    if not flags:
        raise UnmodeledError("top_k is not in the expected place")
    chosen, experts = get_integer(args, flags[0] - 1), weight.shape[0]
    routes, elsewhere = a.shape[0] * chosen, len(flags) == 2 and args[flags[1]] is True
    outputs = routes * get_integer(args, at + 1)
    around = count_read_bytes(a) + count_output_bytes(outputs, a.dtype)
    read = (0 if elsewhere else min(chosen, experts)), min(routes, experts)
    cost = _make_routed_cost(
        2.0 * outputs * a.shape[1], around, count_distinct_bytes(weight) / max(experts, 1), read, a
    )
    return cost._replace(flops=None) if elsewhere else cost


@OPS.formula("_C::ggml_moe_a8")
def _cost_ggml(args: Args) -> OpCost:
    """ggml_moe_a8(x, weight (experts, n, ...), sorted_ids, expert_ids, number, type, n, top_k, tokens)."""
    x, weight, n = get_tensor(args, 0, 2), get_tensor(args, 1, 3), get_integer(args, 6)
    chosen, tokens, experts = get_integer(args, 7), get_integer(args, 8), weight.shape[0]
    outputs = tokens * chosen * n
    around = count_read_bytes(x) + count_output_bytes(outputs, x.dtype)
    read = min(chosen, experts), min(tokens * chosen, experts)
    expert = count_distinct_bytes(weight) / max(experts, 1)
    return _make_routed_cost(2.0 * outputs * x.shape[1], around, expert, read, x)


# Places of the hidden states and of both weights, by the place of the first integer, which tells the version.
_TRTLLM_PLACES = {8: (2, 4, 6), 11: (2, 4, 6), 18: (4, 6, 12)}


@OPS.formula(
    "fused_moe_trtllm_sm100::trtllm_fp4_block_scale_moe fused_moe_trtllm_sm100::trtllm_fp8_block_scale_moe"
    " flashinfer::trtllm_fp4_block_scale_moe flashinfer::trtllm_fp8_block_scale_moe"
)
def _cost_trtllm(args: Args) -> OpCost:
    """trtllm_fp4_block_scale_moe(..., hidden (tokens, k), ..., w1 (experts, 2 n, k), ..., w2 (experts, k, n), ...,
    num_experts, top_k, n_group, topk_group, intermediate_size n, local_expert_offset, local_num_experts, ...): three
    products (gate, up and down) for each token and expert that it goes to.

    Where not all experts are on this rank its products are data.
    """
    at = next((index for index, value in enumerate(args) if isinstance(value, int)), -1)
    if at not in _TRTLLM_PLACES:
        raise UnmodeledError("an unknown version of the op")
    hidden, w1, w2 = (get_tensor(args, place) for place in _TRTLLM_PLACES[at])
    experts, chosen, inner, here = (get_integer(args, at + place) for place in (0, 1, 4, 6))
    tokens, k = hidden.shape[0], get_inner_size(hidden)
    around = count_read_bytes(hidden) + count_output_bytes(tokens * k, "bf16")
    expert = (count_distinct_bytes(w1) + count_distinct_bytes(w2)) / max(here, 1)
    read = (min(chosen, here) if here == experts else 0), min(here, tokens * chosen)
    cost = _make_routed_cost(6.0 * tokens * chosen * k * inner, around, expert, read, hidden)
    return cost if here == experts else cost._replace(flops=None)


def _make_router(count: int, logits: int) -> Formula:
    """topk_softmax(weights, ids, ..., logits (tokens, experts), ...): `count` FLOPs a score, then a selection."""

    def formula(args: Args) -> OpCost:
        scores = get_tensor(args, logits, 2)
        written = [get_tensor(args, index) for index in range(logits)]
        nbytes = count_read_bytes(scores) + sum(count_output_bytes(numel(out), out.dtype) for out in written)
        return make_vector_cost(count * numel(scores), nbytes, scores.dtype, _ROUTER)

    return formula


@OPS.formula("sgl_kernel::moe_fused_gate", op_class=OpClass.SOFTMAX)
def _cost_fused_gate(args: Args) -> OpCost:
    """moe_fused_gate(logits (tokens, experts), bias, groups, topk_group, topk, ...): sigmoid and bias of each score;
    writes the weights (fp32) and ids (int32)."""
    scores, bias = get_tensor(args, 0, 2), get_tensor(args, 1)
    nbytes = count_read_bytes(scores, bias) + 8 * scores.shape[0] * get_integer(args, 4)
    return make_vector_cost((_SIGMOID + 1) * numel(scores), nbytes, scores.dtype, _ROUTER)


def _make_sum(weights_at: int | None) -> Formula:
    """moe_sum(input (tokens, top_k, k) or (routes, k), out (tokens, k), ...): one addition, and one product where it is
    weighted, for each element that is added."""

    def formula(args: Args) -> OpCost:
        x, out = get_tensor(args, 0), get_tensor(args, 1)
        weights = None if weights_at is None else get_optional_tensor(args, weights_at)
        products = numel(x) if weights is not None else 0
        nbytes = count_read_bytes(x, weights) + count_output_bytes(numel(out), out.dtype)
        return make_vector_cost(max(numel(x) - numel(out), 0) + products, nbytes, x.dtype, "sum")

    return formula


def _make_alignment(first_output: int, outputs: int) -> Formula:
    """moe_align_block_size(topk_ids, experts, block_size, sorted_ids, expert_ids, number, ...)."""

    def formula(args: Args) -> OpCost:
        ids = get_tensor(args, 0)
        written = [get_tensor(args, first_output + index) for index in range(outputs)]
        nbytes = count_read_bytes(ids) + sum(count_output_bytes(numel(out), out.dtype) for out in written)
        return make_vector_cost(0, nbytes, ids.dtype, _ROUTER)

    return formula


@OPS.formula("_moe_C::shuffle_rows sgl_kernel::shuffle_rows", flops=Flops.NONE, op_class=OpClass.INDEX)
def _cost_shuffled_rows(args: Args) -> OpCost:
    """shuffle_rows(input, map, out): reads as many rows as it writes, but none twice."""
    x, rows, out = get_tensor(args, 0, 2), get_tensor(args, 1), get_tensor(args, 2, 2)
    nbytes = _count_gathered_bytes(x, out) + count_read_bytes(rows) + count_output_bytes(numel(out), out.dtype)
    return make_vector_cost(0, nbytes, x.dtype, "data movement")


def _count_gathered_bytes(x: TensorArg, out: TensorArg) -> float:
    return min(count_output_bytes(numel(out), x.dtype), count_distinct_bytes(x))


OPS.add(
    "_C::cutlass_moe_mm _C::cutlass_fp4_group_mm _C::cutlass_mxfp4_group_mm sgl_kernel::cutlass_fp4_group_mm"
    " _C::cutlass_w4a8_moe_mm sgl_kernel::cutlass_w4a8_moe_mm",
    _make_grouped(1, 2),
)
OPS.add("sgl_kernel::fp8_blockwise_scaled_grouped_mm", _make_grouped(6, 7))
OPS.add("_moe_C::topk_softmax", _make_router(_SOFTMAX, 3), op_class=OpClass.SOFTMAX)
OPS.add("_moe_C::topk_sigmoid", _make_router(_SIGMOID, 3), op_class=OpClass.SOFTMAX)
OPS.add("_moe_C::topk_softplus_sqrt", _make_router(_SOFTPLUS_ROOT, 3), op_class=OpClass.SOFTMAX)
OPS.add("sgl_kernel::topk_softmax", _make_router(_SOFTMAX, 2), op_class=OpClass.SOFTMAX)
OPS.add("_moe_C::moe_sum", _make_sum(None), op_class=OpClass.REDUCTION)
OPS.add("sgl_kernel::apply_shuffle_mul_sum", _make_sum(3), op_class=OpClass.REDUCTION)
OPS.add(
    "_moe_C::moe_align_block_size _moe_C::sgl_moe_align_block_size sgl_kernel::moe_align_block_size",
    _make_alignment(3, 3),
    flops=Flops.NONE,
    op_class=OpClass.INDEX,
)
