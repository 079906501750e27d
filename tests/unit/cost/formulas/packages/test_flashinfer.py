"""FlashInfer's attention over a paged cache against hand calculations."""

import math

from perfkit.cost.calls.op_call import OpCall, OpClass, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op
from perfkit.cost.op_class import classify_op


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def ints(*shape: int) -> TensorArg:
    return t(*shape, dtype="int32")


def cost(name: str, *args: object) -> OpCost:
    found = cost_op(OpCall(f"fmha_gen::trtllm_paged_attention_{name}", args))  # type: ignore[arg-type]
    assert found is not None
    return found


# 64 heads of width 64 over 8 of a cache in fp8, pages of 16 positions.
POOL, WORK = t(9000, 8, 16, 64, dtype="fp8_e4m3"), t(10**6, dtype="uint8")
PAIR, KEY = 2 * 64 * (64 + 64), 8 * 2 * 64


def test_decoding_meets_at_most_the_longest_sequences_keys() -> None:
    q = t(4, 1, 64, 64)
    before = (q, None, q, POOL, POOL, WORK, ints(4, 100), ints(4))
    found = cost("decode", *before, 500, 0.125, 1.0, -1.0, -1, -1, -1, 148)
    assert (found.flops, found.most_flops) == (4 * PAIR, 4 * 500 * PAIR)
    around = 2 * 2 * 4 * 64 * 64 + 4 * (400 + 4)
    assert (found.bytes, found.most_bytes) == (around + 4 * KEY, around + 4 * 500 * KEY)
    assert cost("decode", *before, 1, 500, 0.125, 1.0, -1.0, -1, -1, 4, -1, 0, 148) == found
    few = cost("decode", *before[:6], ints(4, 3), ints(4), 500, 0.125, 1.0, -1.0, -1, -1, -1, 148)
    assert few.most_flops == 4 * 48 * PAIR  # three blocks have no more


def test_a_window_leaves_out_earlier_keys() -> None:
    q = t(4, 1, 64, 64)
    before = (q, None, q, POOL, POOL, WORK, ints(4, 100), ints(4))
    found = cost("decode", *before, 500, 0.125, 1.0, -1.0, -1, -1, 127, 148)
    assert found.most_flops == 4 * 128 * PAIR
    assert found.most_bytes == 2 * 2 * 4 * 64 * 64 + 4 * 404 + 4 * 128 * KEY


def test_prefill_of_prompts_of_unknown_lengths() -> None:
    """80 tokens of 2 prompts, at most 50 of one, which are all their keys."""
    q = t(80, 64, 64)
    sizes = (50, 50, 0.125, 1.0, -1.0, -1, -1, 2, -1)
    found = cost("context", q, None, q, POOL, POOL, WORK, ints(2, 100), ints(2), *sizes, ints(3), ints(3), 148)
    assert found.flops == 2 * 40 * 41 / 2 * PAIR
    truth = (50 * 51 / 2 + 30 * 31 / 2) * PAIR
    assert found.most_flops is not None
    assert found.flops <= truth <= found.most_flops
    around = 2 * 2 * 80 * 64 * 64 + 4 * (200 + 2)
    assert (found.bytes, found.most_bytes) == (around + 80 * KEY, around + 100 * KEY)


_TYPES = "dtype_q_bf16_dtype_kv_bf16_dtype_o_bf16_dtype_idx_i32_head_dim_qk_128_head_dim_vo_128_posenc_0_use_swa_False"
_NHD, _HND, _CAUSAL = 0, 1, 1
# 32 heads over 4 of a cache in bf16, in pages of 16 positions.
MODULE_PAIR, MODULE_KEY = 4 * 32 * 128, 4 * 2 * 128 * 2
AHEAD = (t(10**7, dtype="uint8"), t(10**6, dtype="uint8"), t(10, dtype="int64"))


def module_cost(module: str, op: str, *args: object) -> OpCost:
    found = cost_op(OpCall(f"{module}_with_kv_cache_{_TYPES}::{op}", args))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_decoding_by_a_compiled_module_meets_at_most_all_pages() -> None:
    q, pool = t(5, 32, 128), t(800, 16, 4, 128)
    tables = (ints(6), ints(70), ints(5))
    found = module_cost("batch_decode", "run", *AHEAD, q, pool, pool, *tables, q, None, _NHD, -1, False)
    assert (found.flops, found.most_flops) == (5 * MODULE_PAIR, 70 * 16 * MODULE_PAIR)
    around = 2 * 2 * 5 * 32 * 128 + 4 * (6 + 70 + 5)
    assert (found.bytes, found.most_bytes) == (around + 5 * MODULE_KEY, around + 70 * 16 * MODULE_KEY)
    by_heads = t(800, 4, 16, 128)
    turned = module_cost("batch_decode", "run", *AHEAD, q, by_heads, by_heads, *tables, q, None, _HND, -1, False)
    assert turned == found
    window = module_cost("batch_decode", "run", *AHEAD, q, pool, pool, *tables, q, None, _NHD, 99, False)
    assert window.most_flops == 5 * 100 * MODULE_PAIR
    assert window.most_bytes == around + 5 * 100 * MODULE_KEY


def test_paged_prefill_by_a_compiled_module() -> None:
    """90 tokens of 3 prompts in 40 pages, which hold earlier tokens, too."""
    q, pool = t(90, 32, 128), t(800, 16, 4, 128)
    tables = (ints(4), ints(4), ints(40), ints(3))
    found = module_cost("batch_prefill", "paged_run", *AHEAD, q, pool, pool, *tables, q, None, _CAUSAL, _NHD, -1, False)
    assert found.flops == 3 * 30 * 31 / 2 * MODULE_PAIR
    assert found.most_flops == (90 * 640 - 90 * 89 / 2) * MODULE_PAIR
    # Lengths (tokens, keys) that fill the pages.
    truth = sum(tokens * keys - tokens * (tokens - 1) / 2 for tokens, keys in ((50, 320), (30, 200), (10, 120)))
    assert found.flops <= truth * MODULE_PAIR <= found.most_flops
    around = 2 * 2 * 90 * 32 * 128 + 4 * (4 + 4 + 40 + 3)
    assert (found.bytes, found.most_bytes) == (around + 90 * MODULE_KEY, around + 640 * MODULE_KEY)


def test_ragged_prefill_by_a_compiled_module() -> None:
    q, k = t(80, 32, 128), t(80, 4, 128)
    found = module_cost(
        "batch_prefill", "ragged_run", *AHEAD, q, k, k, ints(2), ints(2), q, None, _CAUSAL, _NHD, -1, False
    )
    assert (found.flops, found.most_flops) == (80 * 81 / 2 * MODULE_PAIR, None)
    assert found.unmasked_flops == 80 * 80 * MODULE_PAIR
    assert found.bytes == 2 * 2 * 80 * 32 * 128 + 2 * 2 * 80 * 4 * 128 + 4 * 4
    assert cost_op(OpCall(f"batch_prefill_with_kv_cache_{_TYPES}::plan", (q, k))) is None
    assert classify_op(f"batch_prefill_with_kv_cache_{_TYPES}::ragged_run") is OpClass.ATTENTION
