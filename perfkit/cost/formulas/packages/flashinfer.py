"""Attention of FlashInfer: TensorRT-LLM's generated kernels over a paged cache, and modules compiled for given types.

A module's namespace names its dtypes and sizes: `batch_decode_with_kv_cache_dtype_q_bf16_...::run`.

Signatures: csrc/trtllm_fmha_kernel_launcher.cu, csrc/batch_decode_jit_pybind.cu, csrc/batch_prefill_jit_pybind.cu and
flashinfer/jit/attention of FlashInfer, where `TORCH_LIBRARY_FRAGMENT` registers them (0.2.1 to 0.3; later versions are
no ops of torch). MaskMode and TensorLayout: flashinfer/utils.py.
"""

import re

from perfkit.cost.calls.args import (
    Args,
    Formula,
    count_output_bytes,
    count_read_bytes,
    get_element_size,
    get_integer,
    get_tensor,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import OpFamily
from perfkit.cost.formulas.attention_mask import (
    AttentionMask,
    PackedSequences,
    PairRange,
    count_packed_pairs,
    count_pairs,
)
from perfkit.cost.formulas.packed_attention import BOUNDED, make_attention_cost

OPS = OpFamily(OpClass.ATTENTION)

# Ops of compiled modules by the beginning of their namespace, and their own name.
_MODULE = re.compile(r"(?P<module>batch_(?:decode|prefill)_with_kv_cache)_\w+::(?P<op>\w+)")
_CAUSAL = 1  # of MaskMode; with a custom mask (2) all pairs are computed
_BY_HEADS = 1  # of TensorLayout: (pages, heads, page, width), else (pages, page, heads, width)

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


def find_module_formula(name: str) -> Formula | None:
    """The formula of an op of a compiled module, by its name as recorded; None for other ops."""
    matched = _MODULE.fullmatch(name)
    return None if matched is None else _MODULE_FORMULAS.get((matched["module"], matched["op"]))


def _cost_decoding(args: Args) -> OpCost:
    """run(workspace, workspace, plan, q (sequences, heads, width), key_cache, value_cache, kv_indptr, kv_indices,
    last_page_len, out, lse, layout, window_left, ...): one query of each sequence. There are at most as many keys as
    the pages of all sequences, `kv_indices`, have room for."""
    return _cost_pages(args, (6, 7, 8), 9, get_integer(args, 11), AttentionMask(_read_window(args, 12), 0, at_end=True))


def _cost_paged_prefill(args: Args) -> OpCost:
    """paged_run(workspace, workspace, plan, q (tokens, heads, width), key_cache, value_cache, qo_indptr, kv_indptr,
    kv_indices, last_page_len, out, lse, mask_mode, layout, window_left, ...)."""
    return _cost_pages(args, (7, 8, 9), 10, get_integer(args, 13), _read_mask(args, 12, 14), offsets_at=6)


def _cost_pages(
    args: Args,
    tables: tuple[int, int, int],
    out_at: int,
    layout: int,
    mask: AttentionMask,
    offsets_at: int | None = None,
) -> OpCost:
    query, keys, values = get_tensor(args, 3, 3), get_tensor(args, 4, 4), get_tensor(args, 5, 4)
    places, pages, last = (get_tensor(args, index) for index in tables)
    offsets = None if offsets_at is None else get_tensor(args, offsets_at)
    page, kv_heads = (keys.shape[2], keys.shape[1]) if layout == _BY_HEADS else keys.shape[1:3]
    queries, heads, width = query.shape
    sequences = max((queries if offsets is None else numel(offsets) - 1), 1)
    room = max(numel(pages) * page, queries)
    of = PackedSequences(sequences, queries, None, 1 if offsets is None else None, room, mask.right == 0)
    # Pairs of several sequences lie within those of one as long as all: its queries stand beside the last keys.
    most = room if offsets is None else count_pairs(queries, room, AttentionMask(None, mask.right, at_end=True))
    most = most if mask.left is None else min(most, queries * (mask.left + 1))
    least = min(count_packed_pairs(of, mask).least, most)
    unmasked = count_packed_pairs(of, AttentionMask()).least
    written = get_tensor(args, out_at)
    around = count_read_bytes(query, offsets, places, pages, last) + count_output_bytes(numel(written), written.dtype)
    row = kv_heads * (width * get_element_size(keys.dtype) + values.shape[3] * get_element_size(values.dtype))
    first = queries if mask.right == 0 else sequences
    read = room if mask.left is None else min(room, queries + sequences * mask.left)
    cost = make_attention_cost(
        2.0 * heads * (width + values.shape[3]),
        PairRange(least, most),
        unmasked,
        around + row * min(first, read),
        query.dtype,
        lost=BOUNDED,
    )
    return cost._replace(most_bytes=around + row * read if read > first else None)


def _cost_ragged_prefill(args: Args) -> OpCost:
    """ragged_run(workspace, workspace, plan, q (tokens, heads, width), k, v, qo_indptr, kv_indptr, out, lse, mask_mode,
    layout, window_left, ...): keys and values are not in a cache."""
    query, key, value, offsets = (get_tensor(args, index) for index in (3, 4, 5, 6))
    key_offsets, out, mask = get_tensor(args, 7), get_tensor(args, 8), _read_mask(args, 10, 12)
    by_heads = get_integer(args, 11) == _BY_HEADS
    keys = key.shape[1 if by_heads else 0]
    queries, heads, width = get_tensor(args, 3, 3).shape
    of = PackedSequences(max(numel(offsets) - 1, 1), queries, keys, None, None, mask.right == 0)
    nbytes = count_read_bytes(query, key, value, offsets, key_offsets) + count_output_bytes(numel(out), out.dtype)
    per_pair = 2.0 * heads * (width + value.shape[-1])
    unmasked = count_packed_pairs(of, AttentionMask()).least
    return make_attention_cost(per_pair, count_packed_pairs(of, mask), unmasked, nbytes, query.dtype, lost=BOUNDED)


def _read_mask(args: Args, mode: int, window: int) -> AttentionMask:
    return AttentionMask(_read_window(args, window), 0 if get_integer(args, mode) == _CAUSAL else None, at_end=True)


def _read_window(args: Args, index: int) -> int | None:
    left = get_integer(args, index)
    return left if left >= 0 else None


_MODULE_FORMULAS: dict[tuple[str, str], Formula] = {
    ("batch_decode_with_kv_cache", "run"): _cost_decoding,
    ("batch_prefill_with_kv_cache", "paged_run"): _cost_paged_prefill,
    ("batch_prefill_with_kv_cache", "ragged_run"): _cost_ragged_prefill,
}
