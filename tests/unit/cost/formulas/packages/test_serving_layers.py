"""Layers between the products of serving engines, against hand calculations."""

import math

import pytest

from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def fp8(*shape: int) -> TensorArg:
    return t(*shape, dtype="fp8_e4m3")


def fp32(*shape: int) -> TensorArg:
    return t(*shape, dtype="fp32")


def cost(name: str, *args: object) -> OpCost:
    found = cost_op(OpCall(name, args))  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "args", "moved"),
    [
        ("rms_norm", (t(8, 64), t(64), 1e-6), 2 * (2 * 512 + 64)),
        ("rmsnorm", (t(8, 64), t(8, 64), t(64), 1e-6), 2 * (2 * 512 + 64)),
        ("add_rmsnorm", (t(8, 64), t(8, 64), t(8, 64), t(8, 64), t(64), 1e-6), 2 * (4 * 512 + 64)),
        ("fused_add_rms_norm_cu", (t(8, 64), t(8, 64), t(64), 1e-6), 2 * (4 * 512 + 64)),
        ("rmsnorm_quant", (t(8, 64, dtype="fp8_e4m3"), t(8, 64), t(8, dtype="fp32"), t(64)), 512 + 2 * 576 + 32),
    ],
)
def test_norms_of_aiter(name: str, args: tuple[object, ...], moved: int) -> None:
    assert cost(f"aiter::{name}", *args).bytes == moved


@pytest.mark.parametrize(
    ("name", "args", "flops", "moved"),
    [
        ("_C::rms_norm_static_fp8_quant", (fp8(8, 64), t(8, 64), t(64), fp32(1), 1e-6), 7 * 512, 512 + 2 * 576 + 4),
        (
            "_C::fused_add_rms_norm_static_fp8_quant",
            (fp8(8, 64), t(8, 64), t(8, 64), t(64), fp32(1), 1e-6),
            8 * 512,
            512 + 2 * (3 * 512 + 64) + 4,
        ),
        (
            "_C::rms_norm_dynamic_per_token_quant",
            (fp8(8, 64), t(8, 64), t(64), fp32(8, 1), 1e-6, None, None),
            9 * 512,
            512 + 2 * 576 + 32,
        ),
        (
            "_C::rms_norm_per_block_quant",
            (fp8(8, 64), t(8, 64), t(64), fp32(8, 4), 1e-6, None, t(8, 64), 16, False),
            10 * 512,
            512 + 2 * (3 * 512 + 64) + 128,
        ),
        ("sgl_kernel::gemma_fused_add_rmsnorm", (t(8, 64), t(8, 64), t(64), 1e-6), 5 * 512, 2 * (4 * 512 + 64)),
        ("_C::gelu_tanh_and_mul", (t(8, 64), t(8, 128)), 6 * 512, 2 * 3 * 512),
        ("_C::silu_and_mul_quant", (fp8(8, 64), t(8, 128), fp32(1)), 9 * 512, 512 + 2 * 1024 + 4),
        ("_C::dynamic_scaled_fp8_quant", (fp8(8, 64), t(8, 64), fp32(1)), 5 * 512, 512 + 2 * 512 + 4),
        ("_C::per_token_group_fp8_quant", (t(8, 64), fp8(8, 64), fp32(8, 4), 16), 5 * 512, 512 + 2 * 512 + 128),
        ("_C::scaled_fp4_quant", (t(8, 64), fp32(1), True), 5 * 512, 2 * 512 + 256 + 32 + 4),
        (
            "sgl_kernel::scaled_fp4_quant",
            (t(8, 32, dtype="uint8"), t(8, 64), t(128, 4, dtype="int32"), fp32(1)),
            5 * 512,
            2 * 512 + 256 + 32 + 4,
        ),
        (
            "_C::fused_qk_norm_rope",
            (t(8, 6 * 16), 3, 1, 2, 16, 1e-6, t(16), t(16), t(99, 16), True, t(8, dtype="int64")),
            7 * 8 * 4 * 16,
            2 * 2 * 8 * 4 * 16 + 2 * 32,
        ),
        (
            "sgl_kernel::apply_rope_pos_ids_cos_sin_cache",
            (t(8, 4, 16), t(8, 2, 16), t(8, 4, 16), t(8, 2, 16), fp32(99, 16), t(8, dtype="int64"), False),
            3 * 8 * 6 * 16,
            2 * 2 * 8 * 6 * 16 + 64,
        ),
        (
            "_C::merge_attn_states",
            (t(8, 4, 16), None, t(8, 4, 16), fp32(4, 8), t(8, 4, 16), fp32(4, 8)),
            3 * 512,
            2 * 3 * 512 + 2 * 128,
        ),
        (
            "sgl_kernel::merge_state_v2",
            (t(8, 4, 16), fp32(8, 4), t(8, 4, 16), fp32(8, 4), t(8, 4, 16), fp32(8, 4)),
            3 * 512,
            2 * 3 * 512 + 3 * 128,
        ),
        ("_C_cache_ops::concat_and_cache_mla", (t(8, 512), t(8, 64), t(90, 64, 576)), 0, 2 * 2 * 8 * 576),
    ],
)
def test_layers(name: str, args: tuple[object, ...], flops: int, moved: float) -> None:
    found = cost(name, *args)
    assert (found.flops, found.bytes) == (flops, moved)
