"""Ops of serving engines against hand calculations, with the arguments in the order of their sources."""

import math

from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def ints(*shape: int) -> TensorArg:
    return t(*shape, dtype="int32")


def cost(name: str, *args: object) -> OpCost:
    found = cost_op(OpCall(name, args))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_paged_attention_of_one_token_a_sequence() -> None:
    query, keys, values = t(4, 32, 128), t(5000, 8, 16, 16, 8), t(5000, 8, 128, 16)
    rest = (query, keys, values, 8, 0.09, ints(4, 100), ints(4), 16, 1000, None)
    found = cost("_C::paged_attention_v1", query, *rest)
    assert (found.flops, found.most_flops) == (4 * 32 * 128 * 4, 4 * 32 * 128 * 4000)
    around, row = 2 * 2 * 4 * 32 * 128 + 4 * 400 + 4 * 4, 8 * 128 * 2 * 2
    assert (found.bytes, found.most_bytes) == (around + 4 * row, around + 4000 * row)
    partial = (t(4, 32, 2, dtype="fp32"), t(4, 32, 2, dtype="fp32"), t(4, 32, 2, 128))
    assert cost("_C::paged_attention_v2", query, *partial, *rest) == found


def test_attention_over_a_paged_pool_does_not_move_the_pool() -> None:
    # A prefill of 2 prompts of 50 and 30 tokens into pools of a million tokens.
    query, pool = t(80, 32, 128), t(10**6, 8, 128)
    sequences = (ints(3), ints(3), ints(10**6), 50, 50)
    found = cost("aiter::mha_batch_prefill", query, pool, pool, *sequences, 0.0, 0.09, 0.0, False, True, -1, -1)
    pair, row = 4 * 32 * 128, 8 * 128 * 2 * 2
    assert found.flops == pair * 2 * 40 * 41 / 2
    truth = pair * (50 * 51 / 2 + 30 * 31 / 2)
    assert found.most_flops is not None
    assert found.flops <= truth <= found.most_flops
    around = 2 * 2 * 80 * 32 * 128 + 4 * 80 * 32
    assert (found.bytes, found.most_bytes) == (around + 80 * row, around + 100 * row)
    vllm = cost(
        "_vllm_fa2_C::varlen_fwd",
        *(query, t(62500, 16, 8, 128), t(62500, 16, 8, 128), None, ints(3), ints(3), ints(2), None, ints(2, 64), None),
        *(50, 50, 0.0, 0.09, False, True, -1, -1, 0.0, False, None),
    )
    assert (vllm.flops, vllm.most_flops, vllm.bytes) == (found.flops, found.most_flops, found.bytes)


def test_decoding_with_flashattention_3_is_bounded_by_the_table() -> None:
    query, pool = t(4, 1, 32, 128), t(5000, 16, 8, 128)
    args = (query, pool, pool, None, None, None, None, None, None, None, None, ints(4), None, None, ints(4, 10))
    found = cost("sgl_kernel::fwd", *args, *[None] * 8, 0.09, True, -1, -1)
    assert (found.flops, found.most_flops) == (4 * 32 * 128 * 4, 4 * 32 * 128 * 4 * 160)


def test_aiters_attention_and_its_gradient() -> None:
    q = t(2, 100, 16, 64)
    found = cost("aiter::mha_fwd", q, q, q, 0.0, 0.125, True, -1, -1, True, False)
    assert found.flops == 2 * 16 * 4 * 64 * 100 * 101 / 2
    lse = t(2, 16, 100, dtype="fp32")
    backward = cost("aiter::fmha_v3_bwd", q, q, q, q, q, lse, 0.0, 0.125, True, -1, -1, False)
    assert backward.flops == 2.5 * found.flops


def test_decoding_over_latent_vectors() -> None:
    """4 sequences of 16 heads, 512 + 64 wide, over at most 10 blocks of 64 positions each."""
    cache, lengths, table = t(900, 64, 576), ints(4), ints(4, 10)
    found = cost("sgl_kernel::cutlass_mla_decode", t(4, 16, 512), t(4, 16, 512), t(4, 16, 64), cache, lengths, table)
    pair = 2 * 16 * (576 + 512)
    assert (found.flops, found.most_flops) == (4 * pair, 4 * 640 * pair)
    around, key = 2 * 4 * 16 * (576 + 512) + 4 * (4 + 40), 2 * 576
    assert (found.bytes, found.most_bytes) == (around + 4 * key, around + 4 * 640 * key)
    split = (t(4, 16, 512), t(4, 16, dtype="fp32"), t(4, 16, 512), t(4, 16, 64), cache, lengths, table)
    assert cost("_C::sm100_cutlass_mla_decode", *split) == found
    two = cost("_flashmla_C::fwd_kvcache_mla", t(4, 2, 16, 576), t(900, 64, 1, 576), 512, lengths, table, 0.1, True)
    assert (two.flops, two.most_flops) == (4 * 3 * pair, 4 * 2 * 640 * pair)


def test_packed_attention_of_aiter_with_and_without_a_pool() -> None:
    q, k = t(80, 32, 128), t(80, 8, 128)
    rest = (ints(3), ints(3), 40, 40, 0, 0.0, 0.09, 0.0, False, True, -1, -1, True, False, 0, None)
    found = cost("aiter::fmha_v3_varlen_fwd", q, k, k, *rest, None)
    assert (found.flops, found.most_flops) == (4 * 32 * 128 * 2 * 40 * 41 / 2, None)
    pool = t(5000, 16, 8, 128)
    paged = cost("aiter::fmha_v3_varlen_fwd", q, pool, pool, *rest, ints(2, 4))
    assert paged[:2] == found[:2]  # both sequences have 40 keys, of a pool of 328 MB
    assert cost_op(OpCall("aiter::fmha_v3_varlen_fwd", (q, pool, pool, *rest, None))) is None


def test_decoding_over_a_cache_of_keys_and_values() -> None:
    """3 sequences of 2 new tokens over tables of 10 blocks of 16, and over rows of 500 positions."""
    query, blocks, new = t(3, 2, 32, 128), t(900, 16, 8, 128), t(3, 2, 8, 128)
    rest = (None, None, None, None, ints(3, 10), None, None, 0.09, True, -1, -1, 0.0, True, 0)
    found = cost("_vllm_fa2_C::fwd_kvcache", query, blocks, blocks, new, new, ints(3), *rest)
    pair, key = 4 * 32 * 128, 8 * 128 * 2 * 2
    assert (found.flops, found.most_flops) == (3 * 3 * pair, 3 * (159 + 160) * pair)
    around = 2 * 2 * 3 * 2 * 32 * 128 + 4 * (3 + 30) + 2 * 2 * 2 * 3 * 2 * 8 * 128
    assert (found.bytes, found.most_bytes) == (around + 3 * 2 * key, around + 3 * 160 * key)
    rows = t(3, 500, 8, 128)
    used = cost("vllm::flash_attn_with_kvcache", query, rows, rows, ints(3), None, 0.09, True, None, 0.0)
    assert (used.flops, used.most_flops) == (3 * 3 * pair, 3 * (499 + 500) * pair)
    full = cost("vllm::flash_attn_with_kvcache", query, rows, rows, None, None, 0.09, True, None, 0.0)
    assert (full.flops, full.most_flops, full.most_bytes) == (used.most_flops, None, None)
    assert full.unmasked_flops == 3 * 2 * 500 * pair
