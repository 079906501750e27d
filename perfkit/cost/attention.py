"""Fused attention: the two products of the forward pass and the five of the backward pass, over all pairs of positions.

A causal mask halves the useful work, but is counted in full, as `torch.utils.flop_counter` and the usual MFU do
(PaLM, appendix B); the softmax between the products is not counted.
"""

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    cost,
    matrix,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    tensor,
)
from perfkit.cost.call import OpCost, TensorArg, Unit

_SOURCE = "attention"


def _sizes(query: TensorArg, key: TensorArg, value: TensorArg, layout: str) -> tuple[int, int, int, int, int]:
    """(batch x query heads, queries, keys, width of queries, width of values)."""
    if not len(query.shape) == len(key.shape) == len(value.shape) == 4:
        raise UnmodelledError("queries, keys and values must have 4 dimensions (packed sequences are not modelled)")
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


def _forward(layout: str, bias: int | None) -> Formula:
    """QK^T costs 2 s_q s_k d, PV costs 2 s_q s_k d_v a head; also writes the log-sum-exp of each row in fp32."""

    def formula(args: Args) -> OpCost:
        query, key, value = tensor(args, 0), tensor(args, 1), tensor(args, 2)
        heads, s_q, s_k, d, d_v = _sizes(query, key, value, layout)
        mask = optional_tensor(args, bias) if bias is not None else None
        nbytes = read_bytes(query, key, value, mask) + out_bytes(heads * s_q * d_v, query.dtype) + heads * s_q * 4
        return matrix(2.0 * heads * s_q * s_k * (d + d_v), nbytes, query.dtype, _SOURCE)

    return formula


def _backward(layout: str, bias: int | None, out: int, logsumexp: int) -> Formula:
    """Scores again, dQ and dK: 2 s_q s_k d each; dP and dV: 2 s_q s_k d_v each (FlashAttention, appendix B.4)."""

    def formula(args: Args) -> OpCost:
        grad, query, key, value = (tensor(args, index) for index in range(4))
        heads, s_q, s_k, d, d_v = _sizes(query, key, value, layout)
        mask = optional_tensor(args, bias) if bias is not None else None
        inputs = read_bytes(grad, query, key, value, mask, optional_tensor(args, out), optional_tensor(args, logsumexp))
        outputs = sum(out_bytes(numel(each), each.dtype) for each in (query, key, value))
        return matrix(2.0 * heads * s_q * s_k * (3 * d + 2 * d_v), inputs + outputs, query.dtype, _SOURCE)

    return formula


def _packed(formula: Formula, lengths: int, backward: bool = False) -> Formula:
    """Packed sequences, (total, head, width) or with a batch of 1: bytes are known; FLOPs depend on each length."""
    first = 1 if backward else 0

    def either(args: Args) -> OpCost:
        if optional_tensor(args, lengths) is None:
            return formula(args)
        query, key, value = (tensor(args, first + index) for index in range(3))
        if len(query.shape) < 3:
            raise UnmodelledError("queries have no heads")
        rows = numel(query) // max(query.shape[-1], 1)  # of all heads
        logsumexp = 4 * rows
        output = out_bytes(rows * value.shape[-1], query.dtype)
        nbytes = read_bytes(query, key, value) + output + logsumexp
        if backward:  # the output, too, and its gradient; writes three gradients
            nbytes += read_bytes(tensor(args, 0)) + sum(
                out_bytes(numel(each), each.dtype) for each in (query, key, value)
            )
        return cost(None, nbytes, Unit.MATRIX, query.dtype, "packed attention: the lengths are data")

    return either


_FLASH = _forward("BSHD", None)
_FLASH_BACKWARD = _backward("BSHD", None, 4, 5)

FORMULAS: dict[str, Formula] = {
    "aten::_scaled_dot_product_flash_attention": _forward("BHSD", None),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _forward("BHSD", 5),
    "aten::_scaled_dot_product_efficient_attention": _forward("BHSD", 3),
    "aten::_scaled_dot_product_cudnn_attention": _forward("BHSD", 3),
    "aten::_scaled_dot_product_fused_attention_overrideable": _forward("BHSD", 3),
    "aten::_cudnn_attention_forward": _packed(_forward("BHSD", 3), 4),
    "aten::_flash_attention_forward": _packed(_FLASH, 3),
    "aten::_efficient_attention_forward": _packed(_forward("BSHD", 3), 4),
    "aten::_scaled_dot_product_flash_attention_backward": _backward("BHSD", None, 4, 5),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _backward("BHSD", 8, 4, 5),
    "aten::_scaled_dot_product_efficient_attention_backward": _backward("BHSD", 4, 5, 6),
    "aten::_scaled_dot_product_cudnn_attention_backward": _backward("BHSD", 8, 4, 5),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": _backward("BHSD", 4, 6, 7),
    "aten::_flash_attention_backward": _packed(_FLASH_BACKWARD, 6, backward=True),
    "aten::_efficient_attention_backward": _packed(_backward("BSHD", 4, 5, 10), 6, backward=True),
    # Other packages: (batch, position, head, width), or packed where the op says `varlen`.
    "flash_attn::_flash_attn_forward": _FLASH,
    "flash_attn::_flash_attn_backward": _FLASH_BACKWARD,
    "flash_attn::_flash_attn_varlen_forward": _packed(_FLASH, 3),
    "flash_attn::_flash_attn_varlen_backward": _packed(_FLASH_BACKWARD, 9, backward=True),
    "flash_attn_3::_flash_attn_forward": _packed(_packed(_FLASH, 7), 11),  # cu_seqlens_q, seqused_k
    "xformers_flash::flash_fwd": _packed(_FLASH, 3),
    "xformers_flash::flash_bwd": _packed(_FLASH_BACKWARD, 9, backward=True),
    "xformers::efficient_attention_forward_cutlass": _packed(_forward("BSHD", 3), 4),
    "xformers::efficient_attention_backward_cutlass": _packed(_backward("BSHD", 4, 5, 10), 6, backward=True),
}
