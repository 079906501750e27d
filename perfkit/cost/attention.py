"""Fused attention: the two products of the forward pass and the five of the backward pass.

Counted are the pairs of positions that a kernel computes: a causal mask leaves out half of them, a sliding window more
(`perfkit.cost.attention_mask`). `unmasked_flops` is the count of all pairs, as `torch.utils.flop_counter` and MFU by
PaLM, appendix B, have it. The softmax between the products is not counted. A mask that is given as a tensor is data,
and kernels compute all pairs.
"""

from collections.abc import Callable
from functools import partial

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    tensor,
)
from perfkit.cost.attention_mask import Mask, Range, causal_flag, custom_type, first_flag, pairs, windowed
from perfkit.cost.call import OpCost, TensorArg
from perfkit.cost.packed_attention import Lengths, attention_cost, packed

_MaskOf = Callable[[Args], Mask | None]


def _sizes(query: TensorArg, key: TensorArg, value: TensorArg, layout: str) -> tuple[int, int, int, int, int]:
    """(batch x query heads, queries, keys, width of queries, width of values)."""
    if not len(query.shape) == len(key.shape) == len(value.shape) == 4:
        raise UnmodelledError("queries, keys and values must have 4 dimensions")
    heads, positions = layout.index("H"), layout.index("S")
    if query.shape[3] != key.shape[3] or key.shape[positions] != value.shape[positions]:
        raise UnmodelledError("queries, keys and values do not fit together")
    return (
        query.shape[0] * query.shape[heads],
        query.shape[positions],
        key.shape[positions],
        query.shape[3],
        value.shape[3],
    )


def _computed(queries: int, keys: int, mask: Mask | None) -> Range:
    """The pairs of a sequence; where the trace lost the mask it may be causal or none."""
    if mask is None:
        return Range(pairs(queries, keys, Mask(None, 0)), queries * keys)
    exact = pairs(queries, keys, mask)
    return Range(exact, exact)


def _forward(layout: str, bias: int | None, mask_of: _MaskOf) -> Formula:
    """QK^T costs 2 d and PV 2 d_v for each pair and head; also writes the log-sum-exp of each row in fp32."""

    def formula(args: Args) -> OpCost:
        query, key, value = tensor(args, 0), tensor(args, 1), tensor(args, 2)
        heads, s_q, s_k, d, d_v = _sizes(query, key, value, layout)
        mask = optional_tensor(args, bias) if bias is not None else None
        nbytes = read_bytes(query, key, value, mask) + out_bytes(heads * s_q * d_v, query.dtype) + heads * s_q * 4
        computed = _computed(s_q, s_k, mask_of(args))
        return attention_cost(2.0 * heads * (d + d_v), computed, s_q * s_k, nbytes, query.dtype)

    return formula


def _backward(layout: str, bias: int | None, out: int, logsumexp: int, mask_of: _MaskOf) -> Formula:
    """Scores again, dQ and dK: 2 d each; dP and dV: 2 d_v each (FlashAttention, appendix B.4), for a pair and head."""

    def formula(args: Args) -> OpCost:
        grad, query, key, value = (tensor(args, index) for index in range(4))
        heads, s_q, s_k, d, d_v = _sizes(query, key, value, layout)
        mask = optional_tensor(args, bias) if bias is not None else None
        inputs = read_bytes(grad, query, key, value, mask, optional_tensor(args, out), optional_tensor(args, logsumexp))
        outputs = sum(out_bytes(numel(operand), operand.dtype) for operand in (query, key, value))
        computed = _computed(s_q, s_k, mask_of(args))
        return attention_cost(2.0 * heads * (3 * d + 2 * d_v), computed, s_q * s_k, inputs + outputs, query.dtype)

    return formula


def _flag(index: int) -> _MaskOf:
    return partial(causal_flag, index=index)


def flash_mask(args: Args) -> Mask | None:
    """`..., causal, window_size_left, window_size_right` (flash_attn/flash_attn_interface.py of Dao-AILab's
    flash-attention, hopper/flash_attn_interface.py, xformers/ops/fmha/flash.py; versions before windows have none)."""
    flag = first_flag(args)
    return windowed(args, flag, flag + 1)


def _aten_flash_mask(flag: int, left: int) -> _MaskOf:
    return partial(windowed, flag=flag, left=left)


def _efficient_mask(kind: int, window: int) -> _MaskOf:
    return partial(custom_type, index=kind, window=window)


def _xformers_mask(args: Args) -> Mask | None:
    """`..., [bool compute_logsumexp,] int custom_mask_type, [bool compute_logsumexp,] float? scale, Tensor? seqlen_k,
    int? window_size)` (xformers/csrc/attention/attention.cpp; later versions have aten's order)."""
    flag_after = isinstance(args[len(args) - 4], bool)
    return custom_type(args, len(args) - (5 if flag_after else 4), len(args) - 1)


def _xformers_backward(args: Args) -> OpCost:
    """`efficient_attention_backward_cutlass(grad_out, query, key, value, bias, cu_seqlens_q, cu_seqlens_k,
    max_seqlen_q, max_seqlen_k, logsumexp, output, dropout_p, rng_seed, rng_offset, custom_mask_type, scale,
    num_splits_key, window_size)`; later versions have aten's order, with the output before the offsets."""
    output = optional_tensor(args, 5)
    aten = output is not None and len(output.shape) == 4
    return (_EFFICIENT_BACKWARD if aten else _XFORMERS_BACKWARD)(args)


def _efficient_backward(out: int, logsumexp: int, at: Lengths, mask_of: _MaskOf) -> Formula:
    return packed(_backward("BSHD", 4, out, logsumexp, mask_of), at, mask_of, backward=True)


flash_forward = _forward("BSHD", None, flash_mask)
flash_backward = _backward("BSHD", None, 4, 5, flash_mask)
_ATEN_FLASH, _ATEN_FLASH_BACKWARD = _aten_flash_mask(8, 11), _aten_flash_mask(11, 15)
_EFFICIENT = _efficient_mask(9, 13)
_EFFICIENT_BACKWARD = _efficient_backward(5, 10, Lengths(6, 7), _efficient_mask(14, 18))
_XFORMERS_BACKWARD = _efficient_backward(10, 9, Lengths(5, 6), _efficient_mask(14, 17))

FORMULAS: dict[str, Formula] = {
    "aten::_scaled_dot_product_flash_attention": _forward("BHSD", None, _flag(4)),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _forward("BHSD", 5, _flag(4)),
    "aten::_scaled_dot_product_efficient_attention": _forward("BHSD", 3, _flag(6)),
    "aten::_scaled_dot_product_cudnn_attention": _forward("BHSD", 3, _flag(6)),
    "aten::_scaled_dot_product_fused_attention_overrideable": _forward("BHSD", 3, _flag(5)),
    "aten::_cudnn_attention_forward": packed(_forward("BHSD", 3, _flag(10)), Lengths(4, 5), _flag(10)),
    "aten::_flash_attention_forward": packed(
        _forward("BSHD", None, _ATEN_FLASH), Lengths(3, 4, used=13, table=15), _ATEN_FLASH
    ),
    "aten::_efficient_attention_forward": packed(_forward("BSHD", 3, _EFFICIENT), Lengths(4, 5), _EFFICIENT),
    "aten::_scaled_dot_product_flash_attention_backward": _backward("BHSD", None, 4, 5, _flag(11)),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _backward("BHSD", 8, 4, 5, _flag(7)),
    "aten::_scaled_dot_product_efficient_attention_backward": _backward("BHSD", 4, 5, 6, _flag(11)),
    "aten::_scaled_dot_product_cudnn_attention_backward": _backward("BHSD", 8, 4, 5, _flag(14)),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": _backward("BHSD", 4, 6, 7, _flag(13)),
    "aten::_flash_attention_backward": packed(
        _backward("BSHD", None, 4, 5, _ATEN_FLASH_BACKWARD), Lengths(6, 7), _ATEN_FLASH_BACKWARD, backward=True
    ),
    "aten::_efficient_attention_backward": _EFFICIENT_BACKWARD,
    # Other packages: (batch, position, head, width), or packed where the op says `varlen`.
    "flash_attn::_flash_attn_forward": flash_forward,
    "flash_attn::_flash_attn_backward": flash_backward,
    "flash_attn::_flash_attn_varlen_forward": packed(flash_forward, Lengths(3, 4, used=17, table=15), flash_mask),
    "flash_attn::_flash_attn_varlen_backward": packed(flash_backward, Lengths(9, 10), flash_mask, backward=True),
    **dict.fromkeys(
        ("flash_attn_3::_flash_attn_forward", "flash_attn_3::fwd"),
        packed(flash_forward, Lengths(7, 8, used=11, table=14), flash_mask),
    ),
    "flash_attn_3::_flash_attn_backward": packed(flash_backward, Lengths(6, 7, used=9), flash_mask, backward=True),
    "xformers_flash::flash_fwd": packed(flash_forward, Lengths(3, 4), flash_mask),
    "xformers_flash::flash_bwd": packed(flash_backward, Lengths(9, 10), flash_mask, backward=True),
    "xformers::efficient_attention_forward_cutlass": packed(
        _forward("BSHD", 3, _xformers_mask), Lengths(4, 5), _xformers_mask
    ),
    "xformers::efficient_attention_backward_cutlass": _xformers_backward,
}
