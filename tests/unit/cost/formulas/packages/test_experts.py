"""Mixtures of experts against hand calculations, with the arguments in the order of their sources."""

import math

import pytest

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def ints(*shape: int) -> TensorArg:
    return t(*shape, dtype="int32")


def pairs(*shape: int) -> TensorArg:
    return t(*shape, dtype="uint8")


def cost(name: str, *args: object) -> OpCost:
    found = cost_op(OpCall(name, args))  # type: ignore[arg-type]
    assert found is not None
    return found


# 64 tokens of width 512, each to 2 of 8 experts, which are 256 wide behind their gate.
HIDDEN, GATE_UP, DOWN = t(64, 512), t(8, 2 * 256, 512), t(8, 512, 256)
ROUTES = (t(64, 2, dtype="fp32"), ints(64, 2))
EXPERT = 2 * (512 * 512 + 512 * 256)  # bytes of its weights
AROUND = 2 * 2 * 64 * 512 + 2 * 4 * 64 * 2


@pytest.mark.parametrize(
    "name",
    ["vllm::inplace_fused_experts", "sglang::outplace_fused_experts", "vllm::rocm_aiter_fused_moe"],
)
def test_each_token_meets_the_experts_that_it_goes_to(name: str) -> None:
    found = cost(name, HIDDEN, GATE_UP, DOWN, *ROUTES, "silu", False)
    assert found.flops == 64 * 2 * (2 * 512 * 512 + 2 * 512 * 256)
    assert found.most_flops is None
    assert (found.bytes, found.most_bytes) == (AROUND + 2 * EXPERT, AROUND + 8 * EXPERT)
    assert (found.unit, "routing" in found.source) == (ComputeUnit.MATRIX, True)


def test_ids_of_the_experts_that_were_not_recorded_are_as_many_as_their_weights() -> None:
    found = cost("vllm::rocm_aiter_fused_moe", HIDDEN, GATE_UP, DOWN, ROUTES[0])
    assert found.flops == 64 * 2 * (2 * 512 * 512 + 2 * 512 * 256)
    assert found.bytes == AROUND - 4 * 64 * 2 + 2 * EXPERT


def test_few_tokens_read_few_experts_and_weights_of_4_bits_are_packed() -> None:
    one = (t(1, 512), *(t(*shape, dtype="uint8") for shape in ((8, 512, 256), (8, 512, 128))))
    found = cost("vllm::outplace_fused_experts", *one, t(1, 2, dtype="fp32"), ints(1, 2), "silu")
    assert found.flops == 2 * (2 * 512 * 512 + 2 * 512 * 256)
    assert found.most_bytes is None  # one token reads the weights of its two experts, no more
    assert found.bytes == 2 * 2 * 512 + 2 * 4 * 2 + 2 * EXPERT / 4


def test_experts_on_other_ranks_leave_the_products_unknown() -> None:
    found = cost("vllm::inplace_fused_experts", HIDDEN, GATE_UP, DOWN, *ROUTES, "silu", False, 64, ints(64))
    assert found.flops is None
    assert (found.bytes, found.most_bytes) == (AROUND, AROUND + 8 * EXPERT)


@pytest.mark.parametrize(("name", "packing"), [("_C::cutlass_moe_mm", 1), ("sgl_kernel::cutlass_fp4_group_mm", 2)])
def test_each_row_of_a_grouped_product_meets_one_expert(name: str, packing: int) -> None:
    dtype = "fp8_e4m3" if packing == 1 else "uint8"
    a, b = t(96, 512 // packing, dtype=dtype), t(8, 320, 512 // packing, dtype=dtype)
    found = cost(name, t(96, 320), a, b, t(96, 1, dtype="fp32"), t(8, 320, dtype="fp32"), ints(8))
    expert = 320 * 512 / packing
    assert (found.flops, found.most_flops) == (2 * 96 * 512 * 320, None)
    around = 96 * 512 / packing + 2 * 96 * 320
    assert (found.bytes, found.most_bytes) == (around + expert, around + 8 * expert)


def test_pointers_precede_the_operands() -> None:
    a, b = t(96, 512, dtype="fp8_e4m3"), t(8, 512, 320, dtype="fp8_e4m3")
    found = cost("sgl_kernel::fp8_blockwise_scaled_grouped_mm", t(96, 320), *[ints(8)] * 5, a, b)
    assert found.flops == 2 * 96 * 512 * 320


@pytest.mark.parametrize("flags", [(False,), (False, False)])
def test_rows_of_marlin_meet_top_k_experts(flags: tuple[bool, ...]) -> None:
    weight = ints(16, 512 // 16, 2 * 320)
    before = (t(24, 512), None, weight, t(16, 4, 320), ints(600), ints(64), ints(4), ints(1), t(24, 4, dtype="fp32"))
    found = cost("_moe_C::moe_wna16_marlin_gemm", *before, 16, 4, *flags, 7, 24, 320, 512, True, False, True)
    assert found.flops == 2 * 24 * 4 * 512 * 320
    expert, around = 512 * 320 / 2, 2 * 24 * 512 + 2 * 24 * 4 * 320
    assert (found.bytes, found.most_bytes) == (around + 4 * expert, around + 16 * expert)
    away = cost("_moe_C::moe_wna16_marlin_gemm", *before, 16, 4, False, True, 7, 24, 320, 512, True, False, True)
    assert (away.flops, away.bytes, away.most_bytes) == (None, around, around + 16 * expert)


def test_weights_of_4_bits_in_triton() -> None:
    found = cost("_moe_C::moe_wna16_gemm", t(24, 512), t(24, 4, 320), pairs(16, 320, 256), t(16, 320, 4))
    assert found.flops == 2 * 24 * 4 * 512 * 320
    around = 2 * 24 * 512 + 2 * 24 * 4 * 320
    assert (found.bytes, found.most_bytes) == (around + 4 * 320 * 256, around + 16 * 320 * 256)


def test_trtllm_of_flashinfer() -> None:
    """40 tokens of width 512, each to 4 of 32 experts, 256 wide; activations of 8 bits, weights of 4."""
    w1, w2 = pairs(32, 2 * 256, 256), pairs(32, 512, 128)
    hidden = t(40, 512, dtype="fp8_e4m3")
    sizes = (32, 4, None, None, 256, 0)
    routed: tuple[object, ...] = (t(40, 32), ints(40, 4), t(40, 4), t(32))
    version_2 = (*routed, hidden, pairs(640), w1, pairs(32, 512, 16), *[None] * 4, w2, pairs(32, 512, 8), *[None] * 4)
    name = "fused_moe_trtllm_sm100::trtllm_fp4_block_scale_moe"
    found = cost(name, *version_2, *sizes, 32, 2.5)
    assert found.flops == 40 * 4 * 3 * 2 * 512 * 256
    expert, around = 2 * 256 * 256 + 512 * 128, 40 * 512 + 2 * 40 * 512
    assert (found.bytes, found.most_bytes) == (around + 4 * expert, around + 32 * expert)
    assert (found.unit, found.dtype) == (ComputeUnit.MATRIX, "fp8")
    version_1 = (
        t(40, 32),
        t(32),
        hidden,
        pairs(640),
        w1,
        pairs(32, 512, 16),
        w2,
        pairs(32, 512, 8),
        t(32),
        t(32),
        t(32),
    )
    assert cost(name, *version_1, *sizes, 32, 2.5) == found
    part = cost(name, *version_2, 128, *sizes[1:], 32, 2.5)
    assert (part.flops, part.bytes) == (None, around)
    assert cost_op(OpCall(name, (hidden, w1, w2, *sizes, 32))) is None  # type: ignore[arg-type]


def test_router_and_sum_of_the_experts_outputs() -> None:
    routes = t(40, 4, dtype="fp32"), ints(40, 4)
    vllm = cost("_moe_C::topk_softmax", *routes, ints(40, 4), t(40, 32, dtype="fp32"), False)
    assert (vllm.flops, vllm.bytes) == (5 * 40 * 32, 4 * (40 * 32 + 3 * 160))
    sgl = cost("sgl_kernel::topk_softmax", *routes, t(40, 32, dtype="fp32"), True)
    assert (sgl.flops, sgl.bytes) == (5 * 40 * 32, 4 * (40 * 32 + 2 * 160))
    gate = cost("sgl_kernel::moe_fused_gate", t(40, 32, dtype="fp32"), t(32, dtype="fp32"), 4, 2, 4, 0, 2.5, False)
    assert (gate.flops, gate.bytes) == (5 * 40 * 32, 4 * (40 * 32 + 32 + 2 * 160))
    total = cost("_moe_C::moe_sum", t(40, 4, 512), t(40, 512))
    assert (total.flops, total.bytes) == (3 * 40 * 512, 2 * 5 * 40 * 512)
    weighted = cost("sgl_kernel::apply_shuffle_mul_sum", t(160, 512), t(40, 512), ints(160), t(160, dtype="fp32"))
    assert weighted.flops == (3 + 4) * 40 * 512


def test_sorting_and_shuffling_rows() -> None:
    aligned = cost("_moe_C::moe_align_block_size", ints(40, 4), 32, 16, ints(640), ints(40), ints(1))
    assert (aligned.flops, aligned.bytes) == (0, 4 * (160 + 640 + 40 + 1))
    rows = cost("_moe_C::shuffle_rows", t(40, 512), ints(160), t(160, 512))
    assert (rows.flops, rows.bytes) == (0, 2 * 40 * 512 + 4 * 160 + 2 * 160 * 512)
