"""Attention of serving engines: vLLM, SGLang, and aiter on ROCm.

Caches of keys and values are pools of which tables name the blocks: what data decide is given from the least to the
most. FLOPs as in the families of torch's own ops.

Signatures: csrc/ops.h, csrc/libtorch_stable/torch_bindings.cpp and vllm/_aiter_ops.py of vLLM,
vllm/attention/backends/flash_attn.py of its versions 0.5.5 to 0.6, csrc/flash_attn/flash_api.cpp and
flash_api_torch_lib.cpp of its flash-attention, csrc/api/ of its FlashMLA, sgl-kernel/csrc/common_extension.cc of
SGLang, aiter/ops/mha.py of aiter.
"""

from collections.abc import Callable

from perfkit.cost.calls.args import (
    Args,
    Formula,
    count_output_bytes,
    count_read_bytes,
    get_element_size,
    get_integer,
    get_optional_tensor,
    get_tensor,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import OpFamily
from perfkit.cost.formulas.attention import flash_3_forward, flash_backward, flash_forward
from perfkit.cost.formulas.attention_mask import (
    AttentionMask,
    PackedSequences,
    PairRange,
    count_packed_pairs,
    count_pairs,
    find_first_flag,
    read_causal_mask,
    read_window_mask,
)
from perfkit.cost.formulas.packed_attention import BOUNDED, LengthArguments, make_attention_cost, make_packed

OPS = OpFamily(OpClass.ATTENTION)


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


@OPS.formula("aiter::mha_varlen_fwd aiter::fmha_v3_varlen_fwd")
def _cost_aiter_varlen(args: Args) -> OpCost:
    """mha_varlen_fwd(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, ..., zero_tensors, is_causal,
    ..., block_table, ...): the table of blocks, the only matrix of integers, has another place in each version."""
    tables = (index for index in range(5, len(args)) if _is_block_table(args, index))
    return make_packed(flash_forward, LengthArguments(3, 4, table=next(tables, None)), _read_second_flag_mask)(args)


def _make_kvcache(used_at: int, table_at: int, new_at: int | None, mask_of: Callable[[Args], AttentionMask]) -> Formula:
    """fwd_kvcache(q (sequences, queries, heads, width), key_cache, value_cache, ...): each sequence has a row of the
    cache, or the blocks (blocks, positions, heads, width) of its row in the table. Without used lengths the whole cache
    is read. New keys and values are read and written into the cache."""

    def formula(args: Args) -> OpCost:
        query, keys, values = (get_tensor(args, index, 4) for index in range(3))
        used, table = get_optional_tensor(args, used_at), get_optional_tensor(args, table_at)
        new = () if new_at is None else (get_optional_tensor(args, new_at), get_optional_tensor(args, new_at + 1))
        sequences, queries, heads, width = query.shape
        room = keys.shape[1] * (1 if table is None else table.shape[1])
        mask, longest = mask_of(args), max(room, queries)
        of = PackedSequences(sequences, sequences * queries, None, queries, longest, mask.right == 0)
        most = sequences * count_pairs(queries, longest, mask)
        computed = PairRange(most if used is None else min(count_packed_pairs(of, mask).least, most), most)
        unmasked = sequences * queries * longest if used is None else count_packed_pairs(of, AttentionMask()).least
        around = count_read_bytes(query, used, table, *new) + count_output_bytes(numel(query), query.dtype)
        around += sum(count_output_bytes(numel(value), value.dtype) for value in new if value is not None)
        row = keys.shape[2] * width * (get_element_size(keys.dtype) + get_element_size(values.dtype))
        read = longest if mask.left is None else min(longest, queries + mask.left)
        first = read if used is None else min(queries if mask.right == 0 else 1, read)
        least_bytes, most_bytes = (around + row * sequences * count for count in (first, read))
        cost = make_attention_cost(4.0 * heads * width, computed, unmasked, least_bytes, query.dtype, lost=BOUNDED)
        return cost._replace(most_bytes=most_bytes if most_bytes > least_bytes else None)

    return formula


def _read_flag_mask(args: Args) -> AttentionMask:
    """`..., softmax_scale, causal[, window_size_left, window_size_right]`; a mask that was lost leaves all pairs."""
    flag = find_first_flag(args)
    return read_window_mask(args, flag, flag + 1) or AttentionMask(at_end=True)


def _read_causal_flag_mask(args: Args) -> AttentionMask:
    """`..., softmax_scale, causal, alibi_slopes, softcap`."""
    return read_causal_mask(args, find_first_flag(args), at_end=True) or AttentionMask(at_end=True)


def _is_block_table(args: Args, index: int) -> bool:
    value = get_optional_tensor(args, index)
    return value is not None and len(value.shape) == 2 and value.dtype == "int32"


def _cost_latent_decoding(
    queries: tuple[TensorArg, ...], cache: TensorArg, lengths: TensorArg, table: TensorArg, d_v: int
) -> OpCost:
    """Decoding over a cache of latent vectors (blocks, positions, ..., width), which are keys and, in their first `d_v`
    numbers, values (DeepSeek-V2, arXiv:2405.04434, section 2.1.2). Each query meets at least the keys up to its own
    and at most those of all blocks in its row of the table (sequences, blocks)."""
    sequences, blocks = table.shape
    rows = numel(queries[0]) // max(queries[0].shape[-1], 1)  # sequences x queries x heads
    heads = queries[0].shape[-2]
    per_sequence = rows // max(sequences * heads, 1)
    room = max(blocks * cache.shape[1], per_sequence)
    computed = PairRange(sequences * per_sequence * (per_sequence + 1) // 2, sequences * per_sequence * room)
    width = cache.shape[-1]
    around = count_read_bytes(*queries, lengths, table) + count_output_bytes(rows * d_v, queries[0].dtype)
    key = width * get_element_size(cache.dtype)
    least = around + key * sequences * per_sequence
    cost = make_attention_cost(
        2.0 * heads * (width + d_v), computed, computed.least, least, queries[0].dtype, lost=BOUNDED
    )
    return cost._replace(most_bytes=around + key * sequences * room if room > per_sequence else None)


def _make_latent(query_at: int) -> Formula:
    """cutlass_mla_decode(out, [lse,] q_nope (sequences, heads, d_v), q_pe, cache, lengths, table, ...)."""

    def formula(args: Args) -> OpCost:
        latent, rotated, cache = (get_tensor(args, query_at + index) for index in range(3))
        lengths, table = get_tensor(args, query_at + 3), get_tensor(args, query_at + 4, 2)
        return _cost_latent_decoding((latent, rotated), cache, lengths, table, latent.shape[-1])

    return formula


@OPS.formula("_flashmla_C::fwd_kvcache_mla sgl_kernel::fwd_kvcache_mla")
def _cost_flash_mla(args: Args) -> OpCost:
    """fwd_kvcache_mla(q (sequences, queries, heads, width), cache, d_v, lengths, table, ...)."""
    query, cache = get_tensor(args, 0, 4), get_tensor(args, 1)
    return _cost_latent_decoding((query,), cache, get_tensor(args, 3), get_tensor(args, 4, 2), get_integer(args, 2))


OPS.add("_vllm_fa2_C::fwd_kvcache", _make_kvcache(5, 10, 3, _read_flag_mask))
OPS.add("vllm::flash_attn_with_kvcache", _make_kvcache(3, 4, None, _read_causal_flag_mask))
OPS.add("_C::paged_attention_v1", _make_paged_attention(1))
OPS.add("_C::paged_attention_v2", _make_paged_attention(4))
OPS.add(
    "_vllm_fa2_C::varlen_fwd",
    make_packed(flash_forward, LengthArguments(4, 5, used=6, table=8), _read_second_flag_mask),
)
OPS.add("_vllm_fa3_C::fwd sgl_kernel::fwd", flash_3_forward)
OPS.add("aiter::mha_fwd aiter::fmha_v3_fwd", flash_forward)
OPS.add("aiter::mha_bwd aiter::fmha_v3_bwd", flash_backward)
OPS.add(
    "aiter::mha_varlen_bwd aiter::fmha_v3_varlen_bwd",
    make_packed(flash_backward, LengthArguments(6, 7), _read_second_flag_mask, backward=True),
)
OPS.add(
    "aiter::mha_batch_prefill",
    make_packed(flash_forward, LengthArguments(3, 4, table=5), _read_second_flag_mask),
)
OPS.add("_C::sm100_cutlass_mla_decode", _make_latent(2))
OPS.add("sgl_kernel::cutlass_mla_decode", _make_latent(1))
