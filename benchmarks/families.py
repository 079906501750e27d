"""One call of each family of ops that serving and recommender traces hold, with arguments as their sources order them.

`benchmarks/coverage.py --families` shows what of each is known: exactly, within bounds since data decide, or not.
"""

import math

from perfkit.cost.calls.op_call import Arg, OpCall, OpCost, TensorArg
from perfkit.cost.fallback import estimate_fallback_cost
from perfkit.cost.formula_table import cost_op
from perfkit.cost.kernels.multi_tensor import cost_multi_tensor_kernel
from perfkit.cost.layer_gradients import cost_layer_gradient
from perfkit.cost.table_gradients import LOOKUP, NODE, cost_table_gradient


def _tensor(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def _ints(*shape: int) -> TensorArg:
    return _tensor(*shape, dtype="int32")


_QUERY, _POOL = _tensor(80, 32, 128), _tensor(5000, 16, 8, 128)
_SQUARE = _tensor(4, 4096, 16, 128)
_SDPA = _tensor(4, 16, 4096, 128)
_SCANNED, _STATES = _tensor(2, 4096, 1000), _tensor(2, 1, 16, 1000)
_EXPERTS: tuple[Arg, ...] = (_tensor(8, 2 * 768, 2048), _tensor(8, 2048, 768))
_ROUTES: tuple[Arg, ...] = (_tensor(64, 2, dtype="fp32"), _ints(64, 2), "silu", False)
_VARLEN: tuple[Arg, ...] = (_ints(3), _ints(3), 50, 50, 0.0, 0.09, True, -1, -1, 0.0, None, False)
_WORKSPACE: tuple[Arg, ...] = (_tensor(2**27, dtype="uint8"), _tensor(2**23, dtype="uint8"), _ints(15))
_OUT: tuple[Arg, ...] = (_tensor(4, 32, 128), None)

CALLS: dict[str, OpCall] = {
    "causal attention, SDPA": OpCall(
        "aten::_scaled_dot_product_flash_attention", (_SDPA, _SDPA, _SDPA, 0.0, True, False, None)
    ),
    "sliding window, FlashAttention": OpCall(
        "flash_attn::_flash_attn_forward", (_SQUARE, _SQUARE, _SQUARE, 0.0, 0.09, True, 1023, 0, 0.0, None, False)
    ),
    "packed sequences, FlashAttention": OpCall(
        "flash_attn::_flash_attn_varlen_forward", (_QUERY, _QUERY, _QUERY, *_VARLEN)
    ),
    "paged attention, vLLM": OpCall(
        "_C::paged_attention_v1",
        (
            *(_tensor(4, 32, 128), _tensor(4, 32, 128), _tensor(5000, 8, 16, 16, 8), _tensor(5000, 8, 128, 16)),
            *(8, 0.09, _ints(4, 100), _ints(4), 16, 1000, None),
        ),
    ),
    "decoding, FlashAttention-3 of SGLang": OpCall(
        "sgl_kernel::fwd",
        (
            *(_tensor(4, 1, 32, 128), _POOL, _POOL, *[None] * 8, _ints(4), None, None, _ints(4, 10)),
            *([None] * 8),
            *(0.09, True, -1, -1),
        ),
    ),
    "decoding, FlashAttention-2 of vLLM": OpCall(
        "_vllm_fa2_C::fwd_kvcache",
        (
            *(_tensor(4, 1, 32, 128), _POOL, _POOL, None, None, _ints(4), *[None] * 4, _ints(4, 10), None, None),
            *(0.09, True, -1, -1, 0.0, True, 0),
        ),
    ),
    "decoding, FlashInfer": OpCall(
        "batch_decode_with_kv_cache_dtype_q_bf16::run",
        (*_WORKSPACE, _tensor(4, 32, 128), _POOL, _POOL, _ints(5), _ints(40), _ints(4), *_OUT, 0, -1, False),
    ),
    "batch prefill, aiter": OpCall(
        "aiter::mha_batch_prefill",
        (
            *(_QUERY, _tensor(10**6, 8, 128), _tensor(10**6, 8, 128), _ints(3), _ints(3), _ints(10**6)),
            *(50, 50, 0.0, 0.09, 0.0, False, True, -1, -1),
        ),
    ),
    "decoding over latent vectors, FlashMLA": OpCall(
        "_flashmla_C::fwd_kvcache_mla",
        (_tensor(4, 1, 128, 576), _tensor(5000, 64, 1, 576), 512, _ints(4), _ints(4, 10), 0.04, True),
    ),
    "quantized product, Marlin": OpCall(
        "_C::marlin_gemm",
        (
            *(_tensor(64, 4096), None, _ints(256, 8192), None, _tensor(32, 4096), *[None] * 5, _ints(528)),
            *(7, 64, 4096, 4096, True, False, True, False),
        ),
    ),
    "quantized product, NVFP4": OpCall(
        "_C::cutlass_scaled_fp4_mm",
        (
            *(_tensor(64, 4096), _tensor(64, 2048, dtype="uint8"), _tensor(4096, 2048, dtype="uint8")),
            *(_tensor(128, 256, dtype="fp8_e4m3"), _tensor(4096, 256, dtype="fp8_e4m3"), _tensor(1, dtype="fp32")),
        ),
    ),
    "selective scan, Mamba": OpCall(
        "SelectiveScanFn", (_SCANNED, _SCANNED, _tensor(4096, 16, dtype="fp32"), _STATES, _STATES)
    ),
    "norm, aiter": OpCall("aiter::rmsnorm", (_tensor(80, 4096), _tensor(80, 4096), _tensor(4096), 1e-6)),
    "experts, vLLM": OpCall("vllm::inplace_fused_experts", (_tensor(64, 2048), *_EXPERTS, *_ROUTES)),
    "experts, SGLang": OpCall("sglang::outplace_fused_experts", (_tensor(64, 2048), *_EXPERTS, *_ROUTES)),
    "experts, aiter through vLLM": OpCall("vllm::rocm_aiter_fused_moe", (_tensor(64, 2048), *_EXPERTS, *_ROUTES)),
    "experts, FlashInfer": OpCall(
        "fused_moe_trtllm_sm100::trtllm_fp8_block_scale_moe",
        (
            *(_tensor(64, 8), None, _tensor(64, 2048, dtype="fp8_e4m3"), _tensor(16, 64, dtype="fp32")),
            *(_tensor(8, 2 * 768, 2048, dtype="fp8_e4m3"), None, _tensor(8, 2048, 768, dtype="fp8_e4m3"), None),
            *(8, 2, None, None, 768, 0, 8),
        ),
    ),
    "experts, vLLM, weights not recorded": OpCall("vllm::moe_forward", (_tensor(64, 2048), _tensor(64, 8), None)),
    "attention, vLLM, cache not recorded": OpCall(
        "vllm::unified_attention_with_output", (_QUERY, _QUERY, _QUERY, _QUERY, None)
    ),
    "writing a cache, SGLang": OpCall("sglang_profiler::set_kv_buffer", (_POOL, _POOL, _QUERY, _QUERY)),
    "generated kernel, in place": OpCall(
        "triton_poi_fused_mul_silu_4", (_tensor(64, 8192), _tensor(64, 8192), 64 * 8192)
    ),
    "unknown op": OpCall("mine::blend", (_tensor(64, 8192), _tensor(64, 8192))),
}

_NORM = OpCall("LigerRMSNormFunction", (_tensor(80, 4096), _tensor(4096), 1e-6))
_NORM_GRADIENT = OpCall("LigerRMSNormFunctionBackward", (_tensor(80, 4096),))
_ADAM = "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float>(int)"
_TABLE = OpCall(
    LOOKUP,
    (
        *(_tensor(0), _tensor(50000 * 64, dtype="fp16"), _tensor(0), _tensor(0), _ints(3), _ints(3), _ints(4)),
        *(192, 64, _ints(4), None, _tensor(10000, dtype="int64"), _tensor(97, dtype="int64"), *[None] * 7),
        _tensor(50000, dtype="fp32"),
    ),
)


def family_costs() -> dict[str, tuple[str, OpCost | None]]:
    """Of each family the op and its cost."""
    found = {family: (call.name, cost_op(call) or estimate_fallback_cost(call)) for family, call in CALLS.items()}
    gradient = OpCall(NODE, (_tensor(32, 192, dtype="fp32"),))
    return {
        **found,
        "gradient of tables, FBGEMM": (NODE, cost_table_gradient(gradient, [_TABLE])),
        "gradient of a norm, Liger": (_NORM_GRADIENT.name, cost_layer_gradient(_NORM_GRADIENT, [_NORM])),
        "optimizer outside of ops, apex": (_ADAM, cost_multi_tensor_kernel(_ADAM, 320)),
    }
