"""Fused attention: the two products of the forward pass and the five of the backward pass.

Counted are the pairs of positions that a kernel computes: a causal mask leaves out half of them, a sliding window more
(`perfkit.cost.formulas.attention_mask`). `unmasked_flops` is the count of all pairs, as `torch.utils.flop_counter` and
MFU by PaLM, appendix B, have it. The softmax between the products is not counted. A mask that is given as a tensor is
data, and kernels compute all pairs.
"""

from collections.abc import Callable
from functools import partial

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_optional_tensor,
    get_tensor,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import OpFamily
from perfkit.cost.calls.output_rules import make_like
from perfkit.cost.formulas.attention_mask import (
    AttentionMask,
    PairRange,
    count_pairs,
    find_first_flag,
    read_causal_mask,
    read_custom_mask,
    read_window_mask,
)
from perfkit.cost.formulas.packed_attention import LengthArguments, make_attention_cost, make_packed

OPS = OpFamily(OpClass.ATTENTION)

_MaskOf = Callable[[Args], AttentionMask | None]


def _get_sizes(query: TensorArg, key: TensorArg, value: TensorArg, layout: str) -> tuple[int, int, int, int, int]:
    """(batch x query heads, queries, keys, width of queries, width of values)."""
    if not len(query.shape) == len(key.shape) == len(value.shape) == 4:
        raise UnmodeledError("queries, keys and values must have 4 dimensions")
    heads, positions = layout.index("H"), layout.index("S")
    if query.shape[3] != key.shape[3] or key.shape[positions] != value.shape[positions]:
        raise UnmodeledError("queries, keys and values do not match")
    return (
        query.shape[0] * query.shape[heads],
        query.shape[positions],
        key.shape[positions],
        query.shape[3],
        value.shape[3],
    )


def _count_computed_pairs(queries: int, keys: int, mask: AttentionMask | None) -> PairRange:
    """The pairs of a sequence; where the trace lost the mask it may be causal or none."""
    if mask is None:
        return PairRange(count_pairs(queries, keys, AttentionMask(None, 0)), queries * keys)
    exact = count_pairs(queries, keys, mask)
    return PairRange(exact, exact)


def _make_forward(layout: str, bias: int | None, mask_of: _MaskOf) -> Formula:
    """QK^T costs 2 d and PV 2 d_v for each pair and head; also writes the log-sum-exp of each row in fp32."""

    def formula(args: Args) -> OpCost:
        query, key, value = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
        heads, s_q, s_k, d, d_v = _get_sizes(query, key, value, layout)
        mask = get_optional_tensor(args, bias) if bias is not None else None
        nbytes = (
            count_read_bytes(query, key, value, mask)
            + count_output_bytes(heads * s_q * d_v, query.dtype)
            + heads * s_q * 4
        )
        computed = _count_computed_pairs(s_q, s_k, mask_of(args))
        return make_attention_cost(2.0 * heads * (d + d_v), computed, s_q * s_k, nbytes, query.dtype)

    return formula


def _make_backward(layout: str, bias: int | None, out: int, logsumexp: int, mask_of: _MaskOf) -> Formula:
    """Scores again, dQ and dK: 2 d each; dP and dV: 2 d_v each (FlashAttention, appendix B.4), for a pair and head."""

    def formula(args: Args) -> OpCost:
        grad, query, key, value = (get_tensor(args, index) for index in range(4))
        heads, s_q, s_k, d, d_v = _get_sizes(query, key, value, layout)
        mask = get_optional_tensor(args, bias) if bias is not None else None
        inputs = count_read_bytes(
            grad, query, key, value, mask, get_optional_tensor(args, out), get_optional_tensor(args, logsumexp)
        )
        outputs = sum(count_output_bytes(numel(operand), operand.dtype) for operand in (query, key, value))
        computed = _count_computed_pairs(s_q, s_k, mask_of(args))
        return make_attention_cost(2.0 * heads * (3 * d + 2 * d_v), computed, s_q * s_k, inputs + outputs, query.dtype)

    return formula


def _make_flag_reader(index: int) -> _MaskOf:
    return partial(read_causal_mask, index=index)


def read_flash_mask(args: Args) -> AttentionMask | None:
    """`..., causal, window_size_left, window_size_right` (flash_attn/flash_attn_interface.py of Dao-AILab's
    flash-attention, hopper/flash_attn_interface.py, xformers/ops/fmha/flash.py; versions before windows have none)."""
    flag = find_first_flag(args)
    return read_window_mask(args, flag, flag + 1)


def _make_aten_flash_reader(flag: int, left: int) -> _MaskOf:
    return partial(read_window_mask, flag=flag, left=left)


def _make_efficient_reader(kind: int, window: int) -> _MaskOf:
    return partial(read_custom_mask, index=kind, window=window)


def _read_xformers_mask(args: Args) -> AttentionMask | None:
    """`..., [bool compute_logsumexp,] int custom_mask_type, [bool compute_logsumexp,] float? scale, Tensor? seqlen_k,
    int? window_size)` (xformers/csrc/attention/attention.cpp; later versions have aten's order)."""
    flag_after = isinstance(args[len(args) - 4], bool)
    return read_custom_mask(args, len(args) - (5 if flag_after else 4), len(args) - 1)


@OPS.formula("xformers::efficient_attention_backward_cutlass")
def _cost_xformers_backward(args: Args) -> OpCost:
    """`efficient_attention_backward_cutlass(grad_out, query, key, value, bias, cu_seqlens_q, cu_seqlens_k,
    max_seqlen_q, max_seqlen_k, logsumexp, output, dropout_p, rng_seed, rng_offset, custom_mask_type, scale,
    num_splits_key, window_size)`; later versions have aten's order, with the output before the offsets."""
    output = get_optional_tensor(args, 5)
    aten = output is not None and len(output.shape) == 4
    return (_EFFICIENT_BACKWARD if aten else _XFORMERS_BACKWARD)(args)


def _make_efficient_backward(out: int, logsumexp: int, at: LengthArguments, mask_of: _MaskOf) -> Formula:
    return make_packed(_make_backward("BSHD", 4, out, logsumexp, mask_of), at, mask_of, backward=True)


flash_forward = _make_forward("BSHD", None, read_flash_mask)
flash_backward = _make_backward("BSHD", None, 4, 5, read_flash_mask)
flash_3_forward = make_packed(flash_forward, LengthArguments(7, 8, used=11, table=14), read_flash_mask)
_ATEN_FLASH, _ATEN_FLASH_BACKWARD = _make_aten_flash_reader(8, 11), _make_aten_flash_reader(11, 15)
_EFFICIENT = _make_efficient_reader(9, 13)
_EFFICIENT_BACKWARD = _make_efficient_backward(5, 10, LengthArguments(6, 7), _make_efficient_reader(14, 18))
_XFORMERS_BACKWARD = _make_efficient_backward(10, 9, LengthArguments(5, 6), _make_efficient_reader(14, 17))

OPS.add("_scaled_dot_product_flash_attention", _make_forward("BHSD", None, _make_flag_reader(4)), outputs=make_like(0))
OPS.add(
    "_scaled_dot_product_flash_attention_for_cpu", _make_forward("BHSD", 5, _make_flag_reader(4)), outputs=make_like(0)
)
OPS.add(
    "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention",
    _make_forward("BHSD", 3, _make_flag_reader(6)),
    outputs=make_like(0),
)
OPS.add("_scaled_dot_product_fused_attention_overrideable", _make_forward("BHSD", 3, _make_flag_reader(5)))
OPS.add(
    "_cudnn_attention_forward",
    make_packed(_make_forward("BHSD", 3, _make_flag_reader(10)), LengthArguments(4, 5), _make_flag_reader(10)),
)
OPS.add(
    "_flash_attention_forward",
    make_packed(_make_forward("BSHD", None, _ATEN_FLASH), LengthArguments(3, 4, used=13, table=15), _ATEN_FLASH),
)
OPS.add(
    "_efficient_attention_forward", make_packed(_make_forward("BSHD", 3, _EFFICIENT), LengthArguments(4, 5), _EFFICIENT)
)
OPS.add(
    "_scaled_dot_product_flash_attention_backward",
    _make_backward("BHSD", None, 4, 5, _make_flag_reader(11)),
    outputs=make_like(1, 2, 3),
)
OPS.add(
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    _make_backward("BHSD", 8, 4, 5, _make_flag_reader(7)),
    outputs=make_like(1, 2, 3),
)
OPS.add(
    "_scaled_dot_product_efficient_attention_backward",
    _make_backward("BHSD", 4, 5, 6, _make_flag_reader(11)),
    outputs=make_like(1, 2, 3),
)
OPS.add(
    "_scaled_dot_product_cudnn_attention_backward",
    _make_backward("BHSD", 8, 4, 5, _make_flag_reader(14)),
    outputs=make_like(1, 2, 3),
)
OPS.add(
    "_scaled_dot_product_fused_attention_overrideable_backward", _make_backward("BHSD", 4, 6, 7, _make_flag_reader(13))
)
OPS.add(
    "_flash_attention_backward",
    make_packed(
        _make_backward("BSHD", None, 4, 5, _ATEN_FLASH_BACKWARD),
        LengthArguments(6, 7),
        _ATEN_FLASH_BACKWARD,
        backward=True,
    ),
)
OPS.add("_efficient_attention_backward", _EFFICIENT_BACKWARD)
# Other packages: (batch, position, head, width), or packed where the op says `varlen`.
OPS.add("flash_attn::_flash_attn_forward", flash_forward)
OPS.add("flash_attn::_flash_attn_backward", flash_backward)
OPS.add(
    "flash_attn::_flash_attn_varlen_forward",
    make_packed(flash_forward, LengthArguments(3, 4, used=17, table=15), read_flash_mask),
)
OPS.add(
    "flash_attn::_flash_attn_varlen_backward",
    make_packed(flash_backward, LengthArguments(9, 10), read_flash_mask, backward=True),
)
OPS.add("flash_attn_3::_flash_attn_forward flash_attn_3::fwd", flash_3_forward)
OPS.add(
    "flash_attn_3::_flash_attn_backward",
    make_packed(flash_backward, LengthArguments(6, 7, used=9), read_flash_mask, backward=True),
)
OPS.add("xformers_flash::flash_fwd", make_packed(flash_forward, LengthArguments(3, 4), read_flash_mask))
OPS.add(
    "xformers_flash::flash_bwd", make_packed(flash_backward, LengthArguments(9, 10), read_flash_mask, backward=True)
)
OPS.add(
    "xformers::efficient_attention_forward_cutlass",
    make_packed(_make_forward("BSHD", 3, _read_xformers_mask), LengthArguments(4, 5), _read_xformers_mask),
)
