"""Norms, activations, quantization, rotations and writes of caches: vLLM, SGLang, and aiter on ROCm.

FLOPs as in the families of torch's own ops; to quantize an element takes 3 (divide, clamp on both sides), and 2 more
(absolute value, maximum) where its scale is computed. Most ops write into their first argument.

Signatures: csrc/torch_bindings.cpp and csrc/libtorch_stable/torch_bindings.cpp of vLLM,
sgl-kernel/csrc/common_extension.cc of SGLang, aiter/ops/rmsnorm.py and aiter/ops/activation.py of aiter.
"""

from perfkit.cost.calls.args import (
    Args,
    Formula,
    count_output_bytes,
    count_read_bytes,
    get_integer,
    get_optional_tensor,
    get_tensor,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import Flops, OpFamily

OPS = OpFamily(OpClass.POINTWISE)

_NORM, _ADD_NORM = 4, 5  # FLOPs an element
_QUANTIZE, _SCALE_AND_QUANTIZE = 3, 5
_GATED = 6  # of an activation (5) and the product with the other half
_ROTATE = 3
_ELEMENTWISE, _NORMALIZATION = "element-wise", "normalisation"


def _count_written_bytes(*values: TensorArg | None) -> float:
    return sum(count_output_bytes(numel(value), value.dtype) for value in values if value is not None)


def _make_into_first(count: int) -> Formula:
    """op(out, input, ...): `count` FLOPs for each element of `out`; the others are read, or are scales it writes."""

    def formula(args: Args) -> OpCost:
        out, x = get_tensor(args, 0), get_tensor(args, 1)
        nbytes = count_read_bytes(*walk_tensors(args[1:])) + _count_written_bytes(out)
        return make_vector_cost(count * numel(out), nbytes, x.dtype, _ELEMENTWISE)

    return formula


def _make_norm(out: int | None, x_at: int, weight: int, scale: int | None = None) -> Formula:
    """An RMS norm into `out`, else into a new tensor; with the `scale` of each row where it is quantised."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, x_at)
        written = get_tensor(args, out) if out is not None else x
        scales = None if scale is None else get_tensor(args, scale)
        nbytes = count_read_bytes(x, get_tensor(args, weight), scales) + _count_written_bytes(written)
        count = _NORM + (_QUANTIZE if scale is not None else 0)
        return make_vector_cost(count * numel(x), nbytes, x.dtype, _NORMALIZATION)

    return formula


def _make_add_norm(weight: int, scale: int | None = None) -> Formula:
    """add_rmsnorm(out, input, residual_in, residual_out, [scale,] weight, ...)."""

    def formula(args: Args) -> OpCost:
        out, x, residual = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
        scales = None if scale is None else get_tensor(args, scale)
        nbytes = count_read_bytes(x, residual, get_tensor(args, weight), scales) + _count_written_bytes(out, residual)
        count = _ADD_NORM + (_QUANTIZE if scale is not None else 0)
        return make_vector_cost(count * numel(x), nbytes, x.dtype, _NORMALIZATION)

    return formula


@OPS.formula(
    "_C::fused_add_rms_norm _C::fused_add_rmsnorm sgl_kernel::fused_add_rms_norm sgl_kernel::fused_add_rmsnorm"
    " sgl_kernel::gemma_fused_add_rmsnorm aiter::fused_add_rms_norm_cu",
    op_class=OpClass.NORM,
)
def _cost_add_norm_in_place(args: Args) -> OpCost:
    """fused_add_rms_norm(input, residual, weight, eps): both are read and written; one addition and an RMS norm."""
    x, residual, weight = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
    nbytes = count_read_bytes(x, residual, weight) + _count_written_bytes(x, residual)
    return make_vector_cost(_ADD_NORM * numel(x), nbytes, x.dtype, _NORMALIZATION)


@OPS.formula("_C::rms_norm_dynamic_per_token_quant _C::rms_norm_per_block_quant", op_class=OpClass.NORM)
def _cost_norm_with_scales(args: Args) -> OpCost:
    """rms_norm_dynamic_per_token_quant(out, input, weight, scales, eps, bound, residual, ...): writes the scales; with
    a residual, which is read and written, one addition more."""
    out, x, weight, scales = (get_tensor(args, index) for index in range(4))
    residual = get_optional_tensor(args, 6)
    nbytes = count_read_bytes(x, weight, residual) + _count_written_bytes(out, scales, residual)
    count = (_NORM if residual is None else _ADD_NORM) + _SCALE_AND_QUANTIZE
    return make_vector_cost(count * numel(x), nbytes, x.dtype, _NORMALIZATION)


@OPS.formula("_C::fused_qk_norm_rope", op_class=OpClass.NORM)
def _cost_norm_and_rotation(args: Args) -> OpCost:
    """fused_qk_norm_rope(qkv, heads_q, heads_k, heads_v, width, eps, weight_q, weight_k, ..., positions, ...): in
    place, without the values."""
    qkv = get_tensor(args, 0)
    queries, keys, values = (get_integer(args, index) for index in (1, 2, 3))
    elements = numel(qkv) // max(queries + keys + values, 1) * (queries + keys)
    moved = 2 * count_output_bytes(elements, qkv.dtype) + count_read_bytes(get_tensor(args, 6), get_tensor(args, 7))
    return make_vector_cost((_NORM + _ROTATE) * elements, moved, qkv.dtype, _NORMALIZATION)


@OPS.formula("_C::rotary_embedding", op_class=OpClass.INDEX)
def _cost_rotation(args: Args) -> OpCost:
    """rotary_embedding(positions, query, key, ...): in place; two products and an addition for each element."""
    positions, query, key = get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 2)
    elements = numel(query) + (numel(key) if key is not None else 0)
    nbytes = count_read_bytes(positions, query, key) + count_output_bytes(elements, query.dtype)
    return make_vector_cost(_ROTATE * elements, nbytes, query.dtype, _ELEMENTWISE)


@OPS.formula("sgl_kernel::apply_rope_pos_ids_cos_sin_cache", op_class=OpClass.INDEX)
def _cost_rotation_into_others(args: Args) -> OpCost:
    """apply_rope_pos_ids_cos_sin_cache(q, k, q_out, k_out, cache, positions, ...)."""
    query, key, query_out, key_out = (get_tensor(args, index) for index in range(4))
    nbytes = count_read_bytes(query, key, get_tensor(args, 5)) + _count_written_bytes(query_out, key_out)
    return make_vector_cost(_ROTATE * (numel(query) + numel(key)), nbytes, query.dtype, _ELEMENTWISE)


@OPS.formula(
    "_C::per_token_group_fp8_quant _C::per_token_group_quant_int8 sgl_kernel::sgl_per_token_group_quant_fp8"
    " sgl_kernel::sgl_per_token_group_quant_int8 sgl_kernel::sgl_per_token_quant_fp8"
)
def _cost_quantization(args: Args) -> OpCost:
    """per_token_group_fp8_quant(input, out, scales, ...)."""
    x, out, scales = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
    nbytes = count_read_bytes(x) + _count_written_bytes(out, scales)
    return make_vector_cost(_SCALE_AND_QUANTIZE * numel(x), nbytes, x.dtype, _ELEMENTWISE)


@OPS.formula("_C::scaled_fp4_quant sgl_kernel::scaled_fp4_quant")
def _cost_fp4_quantization(args: Args) -> OpCost:
    """scaled_fp4_quant(out, input, out_scales, input_scale), or (input, input_scale, swizzled) into new tensors: two
    elements a byte, and a byte for the scale of 16."""
    new = get_optional_tensor(args, 2) is None
    x, scale = (get_tensor(args, 0), get_tensor(args, 1)) if new else (get_tensor(args, 1), get_tensor(args, 3))
    nbytes = count_read_bytes(x, scale) + numel(x) / 2 + numel(x) / 16
    return make_vector_cost(_SCALE_AND_QUANTIZE * numel(x), nbytes, x.dtype, _ELEMENTWISE)


@OPS.formula("_C::merge_attn_states")
def _cost_merged_attention(args: Args) -> OpCost:
    """merge_attn_states(out, out_lse, prefix, prefix_lse, suffix, suffix_lse, ...): two products and an addition."""
    out, out_lse = get_tensor(args, 0), get_optional_tensor(args, 1)
    nbytes = count_read_bytes(*(get_tensor(args, index) for index in range(2, 6)))
    return make_vector_cost(
        3 * numel(out), nbytes + _count_written_bytes(out, out_lse), get_tensor(args, 2).dtype, _ELEMENTWISE
    )


@OPS.formula("sgl_kernel::merge_state sgl_kernel::merge_state_v2")
def _cost_merged_states(args: Args) -> OpCost:
    """merge_state_v2(a, a_lse, b, b_lse, out, out_lse)."""
    out = get_tensor(args, 4)
    nbytes = count_read_bytes(*(get_tensor(args, index) for index in range(4)))
    nbytes += _count_written_bytes(out, get_tensor(args, 5))
    return make_vector_cost(3 * numel(out), nbytes, get_tensor(args, 0).dtype, _ELEMENTWISE)


def _make_cache_write(tensors: int) -> Formula:
    """The first tensors are read, and as much is written at the places of a table."""

    def formula(args: Args) -> OpCost:
        moved = [get_tensor(args, index) for index in range(tensors)]
        return make_vector_cost(
            0, count_read_bytes(*moved) + _count_written_bytes(*moved), moved[0].dtype, "data movement"
        )

    return formula


OPS.add(
    "_C::rms_norm _C::rmsnorm sgl_kernel::rms_norm sgl_kernel::rmsnorm sgl_kernel::gemma_rmsnorm aiter::rmsnorm"
    " aiter::rms_norm_cu",
    _make_norm(0, 1, 2),
    op_class=OpClass.NORM,
)
OPS.add("aiter::rms_norm aiter::rmsnorm2d_fwd", _make_norm(None, 0, 1), op_class=OpClass.NORM)
OPS.add("_C::rms_norm_static_fp8_quant", _make_norm(0, 1, 2, 3), op_class=OpClass.NORM)
OPS.add("aiter::rmsnorm_quant aiter::rmsnorm2d_fwd_with_dynamicquant", _make_norm(0, 1, 3, 2), op_class=OpClass.NORM)
OPS.add("_C::fused_add_rms_norm_static_fp8_quant", _make_add_norm(3, 4), op_class=OpClass.NORM)
OPS.add("aiter::add_rmsnorm aiter::rmsnorm2d_fwd_with_add", _make_add_norm(4), op_class=OpClass.NORM)
OPS.add(
    "aiter::add_rmsnorm_quant aiter::rmsnorm2d_fwd_with_add_dynamicquant", _make_add_norm(5, 4), op_class=OpClass.NORM
)
OPS.add(
    "_C::silu_and_mul _C::gelu_and_mul _C::gelu_tanh_and_mul _C::mul_and_silu sgl_kernel::silu_and_mul"
    " sgl_kernel::gelu_and_mul sgl_kernel::gelu_tanh_and_mul aiter::silu_and_mul aiter::gelu_and_mul"
    " aiter::gelu_tanh_and_mul",
    _make_into_first(_GATED),
)
OPS.add("_C::fatrelu_and_mul", _make_into_first(2))  # a comparison and the product
OPS.add("_C::swigluoai_and_mul", _make_into_first(11))  # 3 to clamp, 6 for the gate, x + 1, the product
OPS.add("_C::gelu_new _C::gelu_fast", _make_into_first(5))
OPS.add("_C::gelu_quick", _make_into_first(6))  # x times the sigmoid of 1.702 x
OPS.add("_C::silu_and_mul_quant", _make_into_first(_GATED + _QUANTIZE))
OPS.add("_C::silu_and_mul_per_block_quant", _make_into_first(_GATED + _SCALE_AND_QUANTIZE))
OPS.add("_C::static_scaled_fp8_quant _C::static_scaled_int8_quant", _make_into_first(_QUANTIZE))
OPS.add(
    "_C::dynamic_scaled_fp8_quant _C::dynamic_per_token_scaled_fp8_quant _C::dynamic_scaled_int8_quant",
    _make_into_first(_SCALE_AND_QUANTIZE),
)
OPS.add(
    "_C_cache_ops::reshape_and_cache _C_cache_ops::reshape_and_cache_flash _C_cache_ops::concat_and_cache_mla"
    " _C_cache_ops::concat_mla_q",
    _make_cache_write(2),
    flops=Flops.NONE,
    op_class=OpClass.OTHER,
)
