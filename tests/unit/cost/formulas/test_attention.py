"""Fused attention against hand calculations."""

import math

import pytest

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def cost(name: str, *args: object) -> OpCost:
    result = cost_op(OpCall(name, args))  # type: ignore[arg-type]
    assert result is not None
    return result


# batch 2, 8 query heads, 2 key and value heads, 16 queries, 64 keys, width 32, width of values 48
Q, K, V = t(2, 8, 16, 32), t(2, 2, 64, 32), t(2, 2, 64, 48)
OUT, LSE = t(2, 8, 16, 48), t(2, 8, 16, dtype="fp32")
PAIRS = 2 * 8 * 16 * 64
CAUSAL = 2 * 8 * 16 * 17 // 2  # the first query meets the first key, the last 16 of the 64
AT_END = 2 * 8 * (16 * 48 + 16 * 17 // 2)  # FlashAttention: the last query meets all 64
FORWARD = 2 * 32 + 2 * 48  # for a pair
BACKWARD = 3 * (2 * 32) + 2 * (2 * 48)


@pytest.mark.parametrize(("causal", "pairs"), [(False, PAIRS), (True, CAUSAL)])
def test_forward_counts_the_pairs_that_a_causal_mask_leaves(causal: bool, pairs: int) -> None:
    found = cost("aten::_scaled_dot_product_flash_attention_for_cpu", Q, K, V, 0.0, causal, None, None)
    assert found.flops == FORWARD * pairs
    assert found.unmasked_flops == (FORWARD * PAIRS if causal else None)
    assert found.most_flops is None
    assert found.bytes == 2 * (2 * 8 * 16 * 32 + 2 * 2 * 64 * 32 + 2 * 2 * 64 * 48 + 2 * 8 * 16 * 48) + 4 * 2 * 8 * 16
    assert (found.unit, found.dtype) == (ComputeUnit.MATRIX, "bf16")


def test_causal_attention_of_16k_positions_is_half_of_what_flashattention_3_reports_for_all() -> None:
    # FlashAttention-3 (arXiv 2407.08608), section 4.1: 4 S^2 d heads, halved with a causal mask; 16 heads of 128.
    q = t(1, 16384, 16, 128)
    found = cost("flash_attn_3::_flash_attn_forward", q, q, q, *[None] * 20, 0.09, True, -1, -1, 0, 0.0)
    assert found.unmasked_flops == 4 * 16384**2 * 128 * 16
    assert found.flops == pytest.approx(found.unmasked_flops / 2, rel=1e-4)
    # Its figure 5 has 640 TFLOP/s or so there, of the H100's 989: 65 % of the roof, where all pairs would be 129 %.
    seconds = found.unmasked_flops / 2 / 640e12
    assert found.flops / seconds / 989e12 == pytest.approx(0.647, abs=0.001)


def test_a_sliding_window_leaves_its_width() -> None:
    q = t(1, 1000, 4, 64)
    found = cost("flash_attn::_flash_attn_forward", q, q, q, 0.0, 0.125, True, 99, 0, 0.0, None, False)
    assert found.flops == 4 * 64 * 4 * (100 * 101 // 2 + 900 * 100)
    assert found.unmasked_flops == 4 * 64 * 4 * 1000**2
    # Memory-efficient attention counts the query itself in the width.
    packed = cost("aten::_efficient_attention_forward", q, q, q, *[None] * 5, 0.0, 1, False, None, None, 100)
    assert packed.flops == found.flops


def test_a_mask_that_the_trace_lost_leaves_bounds() -> None:
    found = cost("aten::_scaled_dot_product_efficient_attention", Q, K, V, None, None, None, None, None)
    assert (found.flops, found.most_flops) == (FORWARD * CAUSAL, FORWARD * PAIRS)
    assert found.source.startswith("attention")
    assert "mask" in found.source


def test_forward_reads_a_mask() -> None:
    without = cost("aten::_scaled_dot_product_efficient_attention", Q, K, V, None, True, 0.0, False, None)
    mask = t(1, 1, 16, 64)
    with_mask = cost("aten::_scaled_dot_product_efficient_attention", Q, K, V, mask, True, 0.0, False, None)
    assert with_mask.flops == without.flops == FORWARD * PAIRS
    assert with_mask.bytes is not None
    assert without.bytes is not None
    assert with_mask.bytes - without.bytes == 2 * 16 * 64


def test_flash_forward_has_positions_before_heads_and_its_mask_at_the_end() -> None:
    q, k, v = t(2, 16, 8, 32), t(2, 64, 2, 32), t(2, 64, 2, 48)
    rest = (16, 64, 0.0, True, False, None, None, None, None, None)
    found = cost("aten::_flash_attention_forward", q, k, v, None, None, *rest)
    assert (found.flops, found.unmasked_flops) == (FORWARD * AT_END, FORWARD * PAIRS)


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("_scaled_dot_product_flash_attention_for_cpu_backward", (OUT, LSE, 0.0, True, None, None)),
        ("_scaled_dot_product_flash_attention_backward", (OUT, LSE, None, None, 16, 64, 0.0, True, None, None, None)),
        (
            "_scaled_dot_product_efficient_attention_backward",
            (None, OUT, LSE, None, None, 0.0, (True,) * 4, False, None),
        ),
        (
            "_scaled_dot_product_cudnn_attention_backward",
            (OUT, LSE, None, None, None, None, None, 16, 64, 0.0, True, None),
        ),
    ],
)
def test_backward(name: str, rest: tuple[object, ...]) -> None:
    found = cost(f"aten::{name}", OUT, Q, K, V, *rest)
    causal = True in rest
    assert found.flops == BACKWARD * (CAUSAL if causal else PAIRS)
    assert found.unmasked_flops == (BACKWARD * PAIRS if causal else None)
    inputs = 2 * (2 * 8 * 16 * 32 + 2 * 2 * 64 * 32 + 2 * 2 * 64 * 48)
    assert found.bytes == 2 * inputs + 2 * (2 * 2 * 8 * 16 * 48) + 4 * 2 * 8 * 16


def test_packed_sequences_of_one_length_are_exact() -> None:
    offsets = t(3, dtype="int32")
    packed = (t(32, 8, 32), t(32, 8, 32), t(32, 8, 32), offsets, offsets, 16, 16, 0.0, True, False)
    found = cost("aten::_flash_attention_forward", *packed)
    assert (found.flops, found.most_flops) == (4 * 32 * 8 * 2 * 16 * 17 // 2, None)
    assert found.bytes == 4 * (32 * 8 * 32) * 2 + 4 * 32 * 8  # queries, keys, values, output; log-sum-exp in fp32


def test_packed_sequences_of_several_lengths_have_bounds() -> None:
    offsets, q = t(5, dtype="int32"), t(100, 8, 32)  # 4 sequences of 100 positions, the longest of 40
    rest = (offsets, offsets, 40, 40, 0.0, 0.125, True, -1, -1, 0.0, None, False, None, None, None)
    found = cost("flash_attn::_flash_attn_varlen_forward", q, q, q, *rest)
    assert found.flops == 4 * 32 * 8 * 4 * 25 * 26 // 2  # four of 25
    assert found.most_flops == 4 * 32 * 8 * (2 * 40 * 41 // 2 + 20 * 21 // 2)  # 40, 40, 20
    assert found.source.startswith("attention")
    assert "lengths" in found.source
    backward = cost("flash_attn::_flash_attn_varlen_backward", q, q, q, q, q, t(8, 100), q, q, q, *rest)
    assert backward.flops == 2.5 * found.flops


def test_a_paged_cache_is_read_as_far_as_its_sequences_reach() -> None:
    # 4 requests of one token each, at most 100 keys, in blocks of 16: the pool has 5000 of them.
    q, pool, table = t(4, 8, 64), t(5000, 16, 2, 64), t(4, 7, dtype="int32")
    offsets, used = t(5, dtype="int32"), t(4, dtype="int32")
    rest = (offsets, offsets, 1, 100, 0.0, 0.125, True, -1, -1, 0.0, None, False, table, None, used)
    found = cost("flash_attn::_flash_attn_varlen_forward", q, pool, pool, *rest)
    row, queries = 2 * (64 + 64) * 2, 4 * 8 * 64 * 2 * 2 + 4 * 4 * 8
    assert (found.flops, found.most_flops) == (4 * 64 * 8 * 4, 4 * 64 * 8 * 4 * 100)
    assert (found.bytes, found.most_bytes) == (queries + 4 * row, queries + 400 * row)
    # torch's own op, with the same cache.
    own = (*(q, pool, pool, offsets, offsets, 1, 100, 0.0, True, False), 0.125, None, None, used, None, table, None)
    assert cost("aten::_flash_attention_forward", *own)[:2] == found[:2]
    assert cost("aten::_flash_attention_forward", *own).most_flops == found.most_flops
