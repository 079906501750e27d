"""FlashInfer's attention over a paged cache against hand calculations."""

import math

from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


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
