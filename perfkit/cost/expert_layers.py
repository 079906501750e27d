"""Costs layers of experts by the ops beneath them: vLLM passes `moe_forward` neither the weights nor top_k.

Where the layer launches Triton's `fused_moe_kernel` itself, the ops between its products tell their sizes: the ids of
the chosen experts (`moe_align_block_size`) the rows, the gated activation the width of an expert
(vllm/model_executor/layers/fused_moe/fused_moe.py). The weights, and so the bytes, are not recorded.
"""

from collections.abc import Sequence

from perfkit.cost.calls.args import UnmodeledError, get_optional_tensor, get_tensor, make_matrix_cost, numel
from perfkit.cost.calls.op_call import OpCall, OpClass, OpCost
from perfkit.cost.formulas.packages.experts import OPS

EXPERT_LAYERS = frozenset({"vllm::moe_forward", "vllm::moe_forward_shared"})

_ALIGNMENTS = frozenset({"_moe_C::moe_align_block_size", "_moe_C::sgl_moe_align_block_size"})
_EXPERT_MAP = 6  # its place among their arguments: experts that it leaves out are on other ranks
_ACTIVATIONS = frozenset({"_C::silu_and_mul", "_C::gelu_and_mul", "_C::gelu_tanh_and_mul", "_C::swigluoai_and_mul"})
# Their place of the quantized operand, which is what the products take.
_QUANTIZED = {
    "_C::static_scaled_fp8_quant": 0,
    "_C::dynamic_scaled_fp8_quant": 0,
    "_C::dynamic_per_token_scaled_fp8_quant": 0,
    "_C::dynamic_scaled_int8_quant": 0,
    "_C::per_token_group_fp8_quant": 1,
    "_C::per_token_group_quant_int8": 1,
}
_PRODUCTS = frozenset(
    name for name, op in OPS.items() if op.op_class is OpClass.MATMUL
)  # which have costs of their own

EXPERT_EVIDENCE = _ALIGNMENTS | _ACTIVATIONS | frozenset(_QUANTIZED) | _PRODUCTS
_SOURCE = "experts: routes and activations beneath"


def cost_expert_layer(call: OpCall, inside: Sequence[OpCall]) -> OpCost | None:
    """The FLOPs of the products that one of `EXPERT_LAYERS` launches itself, from the calls (of `EXPERT_EVIDENCE`)
    beneath it; None where they do not show it."""
    try:
        return _cost_products(call, inside)
    except (UnmodeledError, IndexError):
        return None


def _cost_products(call: OpCall, inside: Sequence[OpCall]) -> OpCost | None:
    aligned = [within.args for within in inside if within.name in _ALIGNMENTS]
    if not aligned or any(within.name in _PRODUCTS for within in inside):
        return None
    if any(get_optional_tensor(args, _EXPERT_MAP) is not None for args in aligned):
        return None
    hidden, routes = get_tensor(call.args, 0, 2), [numel(get_tensor(args, 0)) for args in aligned]
    outputs = [get_tensor(within.args, 0) for within in inside if within.name in _ACTIVATIONS]
    # Experts that all tokens share have an activation of their own, with as many rows as tokens.
    gated = [out for out in outputs if numel(out) // max(out.shape[-1], 1) in routes]
    if len(gated) != len(routes):
        return None
    flops = sum(6.0 * numel(out) * hidden.shape[1] for out in gated)  # gate, up and down
    quantized = (get_tensor(within.args, _QUANTIZED[within.name]) for within in inside if within.name in _QUANTIZED)
    operand = next(quantized, hidden)
    return make_matrix_cost(flops, 0.0, operand.dtype, _SOURCE)._replace(bytes=None)
