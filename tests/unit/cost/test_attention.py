"""Fused attention against hand calculations."""

import math

import pytest

from perfkit.cost.call import OpCall, OpCost, TensorArg, Unit
from perfkit.cost.op import op_cost


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def cost(name: str, *args: object) -> OpCost:
    result = op_cost(OpCall(name, args))  # type: ignore[arg-type]
    assert result is not None
    return result


# batch 2, 8 query heads, 2 key and value heads, 16 queries, 64 keys, width 32, width of values 48
Q, K, V = t(2, 8, 16, 32), t(2, 2, 64, 32), t(2, 2, 64, 48)
OUT, LSE = t(2, 8, 16, 48), t(2, 8, 16, dtype="fp32")
PAIRS = 2 * 8 * 16 * 64
FORWARD = 2 * PAIRS * 32 + 2 * PAIRS * 48
BACKWARD = 3 * (2 * PAIRS * 32) + 2 * (2 * PAIRS * 48)


@pytest.mark.parametrize("causal", [False, True])
def test_forward_counts_a_causal_mask_in_full(causal: bool) -> None:
    found = cost("aten::_scaled_dot_product_flash_attention_for_cpu", Q, K, V, 0.0, causal, None, None)
    assert found.flops == FORWARD
    assert found.bytes == 2 * (2 * 8 * 16 * 32 + 2 * 2 * 64 * 32 + 2 * 2 * 64 * 48 + 2 * 8 * 16 * 48) + 4 * 2 * 8 * 16
    assert (found.unit, found.dtype) == (Unit.MATRIX, "bf16")


def test_forward_reads_a_mask() -> None:
    without = cost("aten::_scaled_dot_product_efficient_attention", Q, K, V, None, True, 0.0, False, None)
    mask = t(1, 1, 16, 64)
    with_mask = cost("aten::_scaled_dot_product_efficient_attention", Q, K, V, mask, True, 0.0, False, None)
    assert with_mask.flops == without.flops == FORWARD
    assert with_mask.bytes is not None
    assert without.bytes is not None
    assert with_mask.bytes - without.bytes == 2 * 16 * 64


def test_flash_forward_has_positions_before_heads() -> None:
    q, k, v = t(2, 16, 8, 32), t(2, 64, 2, 32), t(2, 64, 2, 48)
    rest = (16, 64, 0.0, True, False, None, None, None, None, None)
    assert cost("aten::_flash_attention_forward", q, k, v, None, None, *rest).flops == FORWARD


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
    assert found.flops == BACKWARD
    inputs = 2 * (2 * 8 * 16 * 32 + 2 * 2 * 64 * 32 + 2 * 2 * 64 * 48)
    assert found.bytes == 2 * inputs + 2 * (2 * 2 * 8 * 16 * 48) + 4 * 2 * 8 * 16


def test_packed_sequences_have_bytes_but_no_flops() -> None:
    offsets = t(3, dtype="int32")
    packed = (t(32, 8, 32), t(32, 8, 32), t(32, 8, 32), offsets, offsets, 16, 16, 0.0, True, False)
    found = op_cost(OpCall("aten::_flash_attention_forward", packed))
    assert found is not None
    assert found.flops is None  # how long each sequence is, is data
    assert found.bytes == 4 * (32 * 8 * 32) * 2 + 4 * 32 * 8  # queries, keys, values, output; log-sum-exp in fp32
