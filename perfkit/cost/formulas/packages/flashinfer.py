"""Attention of FlashInfer over a paged cache, by TensorRT-LLM's generated kernels.

Signatures: csrc/trtllm_fmha_kernel_launcher.cu of FlashInfer, where `TORCH_LIBRARY_FRAGMENT` registers it (0.2.10 to
0.3; later versions are no ops of torch).
"""

from perfkit.cost.calls.args import (
    Args,
    count_output_bytes,
    count_read_bytes,
    get_element_size,
    get_integer,
    get_tensor,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import OpFamily
from perfkit.cost.formulas.attention_mask import AttentionMask, PackedSequences, count_packed_pairs
from perfkit.cost.formulas.packed_attention import BOUNDED, make_attention_cost

OPS = OpFamily(OpClass.ATTENTION)

# Places of max_kv_len and window_left: after max_q_len and the batch's size where these are given.
_PLACES, _PLACES_OF_KEYS_ALONE = (9, 16), (8, 14)
_LONGEST_QUERY = 8


@OPS.formula("fmha_gen::trtllm_paged_attention_decode fmha_gen::trtllm_paged_attention_context")
def _cost_paged_attention(args: Args) -> OpCost:
    """trtllm_paged_attention_context(out, out_scale, query (..., heads, width), key_cache (pages, heads, page, width),
    value_cache, workspace, block_tables (sequences, blocks), seq_lens, [max_q_len,] max_kv_len, scales ..., [batch,]
    window_left, ...): causal, the last query beside the last key. Lengths are data: each sequence has at least the keys
    of its queries, at most max_kv_len and those of its blocks."""
    query, keys, values = get_tensor(args, 2), get_tensor(args, 3, 4), get_tensor(args, 4, 4)
    table, lengths = get_tensor(args, 6, 2), get_tensor(args, 7)
    heads, width = query.shape[-2:]
    sequences, blocks = table.shape
    queries = numel(query) // max(heads * width, 1)
    sized = isinstance(args[9], int)
    keys_at, window_at = _PLACES if sized else _PLACES_OF_KEYS_ALONE
    longest_query = get_integer(args, _LONGEST_QUERY) if sized else -(-queries // max(sequences, 1))
    longest_key = min(get_integer(args, keys_at), blocks * keys.shape[2])
    left = get_integer(args, window_at)
    mask = AttentionMask(left if left >= 0 else None, 0, at_end=True)
    longest_key = max(longest_key, longest_query)
    of = PackedSequences(sequences, queries, None, longest_query, longest_key, prefix=True)
    computed = count_packed_pairs(of, mask)
    around = count_read_bytes(query, table, lengths) + count_output_bytes(
        queries * heads * values.shape[3], query.dtype
    )
    row = keys.shape[1] * (
        keys.shape[3] * get_element_size(keys.dtype) + values.shape[3] * get_element_size(values.dtype)
    )
    read = longest_key if mask.left is None else min(longest_key, longest_query + mask.left)
    most = max(queries, sequences * read)
    per_pair = 2.0 * heads * (width + values.shape[3])
    unmasked = count_packed_pairs(of, AttentionMask()).least
    cost = make_attention_cost(per_pair, computed, unmasked, around + row * queries, query.dtype, lost=BOUNDED)
    return cost._replace(most_bytes=around + row * most if most > queries else None)
