"""Attention, experts and norms of serving engines: vLLM, SGLang, and aiter on ROCm.

Caches of keys and values are pools of which tables name the blocks, and routing decides which experts' weights are
read: what data decide is given from the least to the most. FLOPs as in the families of torch's own ops.

Signatures: csrc/ops.h, vllm/_aiter_ops.py and vllm/model_executor/layers/fused_moe/fused_moe.py of vLLM,
csrc/flash_attn/flash_api.cpp of its flash-attention, python/sglang/srt/layers/moe/fused_moe_triton/fused_moe.py of
SGLang, aiter/ops/mha.py and aiter/ops/rmsnorm.py of aiter.
"""

from perfkit.cost.calls.args import (
    Args,
    Formula,
    count_output_bytes,
    count_read_bytes,
    get_element_size,
    get_integer,
    get_optional_tensor,
    get_tensor,
    make_matrix_cost,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import OpFamily
from perfkit.cost.formulas.attention import flash_3_forward, flash_backward, flash_forward
from perfkit.cost.formulas.attention_mask import AttentionMask, PairRange, find_first_flag, read_window_mask
from perfkit.cost.formulas.packed_attention import BOUNDED, LengthArguments, make_attention_cost, make_packed

OPS = OpFamily(OpClass.OTHER)

_ROUTED = "experts: routing depends on data"
_NORM, _ADD_NORM, _QUANTISE = 4, 5, 3  # FLOPs an element


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
    cost = make_matrix_cost(flops, around + expert * least, hidden.dtype, _ROUTED)
    cost = cost._replace(most_bytes=around + expert * most if most > least else None)
    return cost._replace(flops=None) if elsewhere else cost


def _is_expert_map(args: Args, index: int) -> bool:
    value = get_optional_tensor(args, index)
    return value is not None and len(value.shape) == 1 and value.dtype in ("int32", "int64") and numel(value) > 1


def _make_paged_attention(query_at: int) -> Formula:
    """paged_attention(..., query (sequences, heads, width), key_cache (blocks, heads, width / x, block, x), value_cache
    (blocks, heads, width, block), num_kv_heads, scale, block_tables, seq_lens, block_size, max_seq_len, ...): one query
    of each sequence meets between one and `max_seq_len` keys."""

    def formula(args: Args) -> OpCost:
        query, cache, values = (get_tensor(args, query_at + index) for index in range(3))
        sequences, heads, width = get_tensor(args, query_at, 3).shape
        longest = get_integer(args, query_at + 8)
        around = count_read_bytes(query, get_tensor(args, query_at + 5), get_tensor(args, query_at + 6))
        around += count_output_bytes(numel(query), query.dtype)
        row = get_integer(args, query_at + 3) * width * (get_element_size(cache.dtype) + get_element_size(values.dtype))
        computed = PairRange(sequences, sequences * max(longest, 1))
        least = around + row * computed.least
        cost = make_attention_cost(4.0 * heads * width, computed, computed.least, least, query.dtype, lost=BOUNDED)
        return cost._replace(most_bytes=None if longest <= 1 else around + row * computed.most)

    return formula


def _read_second_flag_mask(args: Args) -> AttentionMask | None:
    """`..., zero_tensors, is_causal, window_size_left, window_size_right`."""
    flag = find_first_flag(args)
    return read_window_mask(args, flag + 1, flag + 2)


@OPS.formula("aiter::mha_varlen_fwd aiter::fmha_v3_varlen_fwd", op_class=OpClass.ATTENTION)
def _cost_aiter_varlen(args: Args) -> OpCost:
    """mha_varlen_fwd(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, ..., zero_tensors, is_causal,
    ..., block_table, ...): the table of blocks, the only matrix of integers, has another place in each version."""
    tables = (index for index in range(5, len(args)) if _is_block_table(args, index))
    return make_packed(flash_forward, LengthArguments(3, 4, table=next(tables, None)), _read_second_flag_mask)(args)


def _is_block_table(args: Args, index: int) -> bool:
    value = get_optional_tensor(args, index)
    return value is not None and len(value.shape) == 2 and value.dtype == "int32"


def _make_norm(out: int | None, x_at: int, weight: int, scale: int | None = None) -> Formula:
    """An RMS norm into `out`, else into a new tensor; with the `scale` of each row where it is quantised."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, x_at)
        written = get_tensor(args, out) if out is not None else x
        scales = 0.0 if scale is None else count_read_bytes(get_tensor(args, scale))
        nbytes = (
            count_read_bytes(x, get_tensor(args, weight)) + count_output_bytes(numel(written), written.dtype) + scales
        )
        return make_vector_cost(
            (_NORM + (_QUANTISE if scale is not None else 0)) * numel(x), nbytes, x.dtype, "normalisation"
        )

    return formula


def _make_add_norm(weight: int, scale: int | None = None) -> Formula:
    """add_rmsnorm(out, input, residual_in, residual_out, [scale,] weight, ...)."""

    def formula(args: Args) -> OpCost:
        out, x, residual = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
        scales = 0.0 if scale is None else count_read_bytes(get_tensor(args, scale))
        nbytes = count_read_bytes(x, residual, get_tensor(args, weight)) + scales
        nbytes += count_output_bytes(numel(out), out.dtype) + count_output_bytes(numel(residual), residual.dtype)
        count = _ADD_NORM + (_QUANTISE if scale is not None else 0)
        return make_vector_cost(count * numel(x), nbytes, x.dtype, "normalisation")

    return formula


@OPS.formula("aiter::fused_add_rms_norm_cu", op_class=OpClass.NORM)
def _cost_add_norm_in_place(args: Args) -> OpCost:
    """fused_add_rms_norm_cu(input, residual, weight, epsilon): both are read and written."""
    x, residual, weight = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
    nbytes = (
        count_read_bytes(x, residual, weight)
        + count_output_bytes(numel(x), x.dtype)
        + count_output_bytes(numel(residual), residual.dtype)
    )
    return make_vector_cost(_ADD_NORM * numel(x), nbytes, x.dtype, "normalisation")


OPS.add("_C::paged_attention_v1", _make_paged_attention(1), op_class=OpClass.ATTENTION)
OPS.add("_C::paged_attention_v2", _make_paged_attention(4), op_class=OpClass.ATTENTION)
OPS.add(
    "_vllm_fa2_C::varlen_fwd",
    make_packed(flash_forward, LengthArguments(4, 5, used=6, table=8), _read_second_flag_mask),
    op_class=OpClass.ATTENTION,
)
OPS.add("_vllm_fa3_C::fwd sgl_kernel::fwd", flash_3_forward, op_class=OpClass.ATTENTION)
OPS.add("aiter::mha_fwd aiter::fmha_v3_fwd", flash_forward, op_class=OpClass.ATTENTION)
OPS.add("aiter::mha_bwd aiter::fmha_v3_bwd", flash_backward, op_class=OpClass.ATTENTION)
OPS.add(
    "aiter::mha_varlen_bwd aiter::fmha_v3_varlen_bwd",
    make_packed(flash_backward, LengthArguments(6, 7), _read_second_flag_mask, backward=True),
    op_class=OpClass.ATTENTION,
)
OPS.add(
    "aiter::mha_batch_prefill",
    make_packed(flash_forward, LengthArguments(3, 4, table=5), _read_second_flag_mask),
    op_class=OpClass.ATTENTION,
)
OPS.add("aiter::rms_norm aiter::rmsnorm2d_fwd", _make_norm(None, 0, 1), op_class=OpClass.NORM)
OPS.add("aiter::rmsnorm aiter::rms_norm_cu", _make_norm(0, 1, 2), op_class=OpClass.NORM)
OPS.add("aiter::rmsnorm_quant aiter::rmsnorm2d_fwd_with_dynamicquant", _make_norm(0, 1, 3, 2), op_class=OpClass.NORM)
OPS.add("aiter::add_rmsnorm aiter::rmsnorm2d_fwd_with_add", _make_add_norm(4), op_class=OpClass.NORM)
OPS.add(
    "aiter::add_rmsnorm_quant aiter::rmsnorm2d_fwd_with_add_dynamicquant", _make_add_norm(5, 4), op_class=OpClass.NORM
)
