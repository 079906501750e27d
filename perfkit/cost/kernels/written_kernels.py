"""Hand-written Triton kernels that torch.compile launches: recorded with their arguments under their name and a number.

Tensors stand in the order of the kernel's parameters, without those that are None. Kernels: `fused_moe_kernel` of
vLLM and SGLang (vllm/model_executor/layers/fused_moe/fused_moe.py), `XXT_kernel` and `ba_plus_cAA_kernel` of
KellerJordan/modded-nanogpt (triton_kernels.py), with which Muon orthogonalizes an update.
"""

import re
from collections.abc import Callable

from perfkit.cost.calls.args import (
    UnmodeledError,
    count_distinct_bytes,
    count_output_bytes,
    count_read_bytes,
    make_matrix_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg

_NAME = re.compile(r"(?P<kernel>[A-Za-z_]\w*?)_\d+")
_ROUTED = "experts: routing depends on data"
_SYMMETRIC = "symmetric product: half of it is computed, by tiles"

_Tensors = tuple[TensorArg, ...]


def _cost_experts(tensors: _Tensors) -> OpCost:
    """fused_moe_kernel(a (rows, k), b (experts, n, k), c (tokens, top_k, n), ...): each row of c meets one expert."""
    a, b, c = tensors[:3]
    routes, experts = numel(c) // max(c.shape[-1], 1), b.shape[0]
    if len(b.shape) != 3 or (b.shape[1], b.shape[2]) != (c.shape[-1], a.shape[-1]):
        raise UnmodeledError("operands do not match")
    around = count_read_bytes(a) + count_output_bytes(numel(c), c.dtype)
    expert = count_distinct_bytes(b) / max(experts, 1)
    cost = make_matrix_cost(2.0 * numel(c) * a.shape[-1], around + expert * min(routes, 1), a.dtype, _ROUTED)
    most = min(routes, experts)
    return cost._replace(most_bytes=around + expert * most if most > 1 else None)


def _cost_symmetric_product(tensors: _Tensors) -> OpCost:
    """XXT_kernel(x (batch, m, k), out (batch, m, m), ...): one triangle of x x^T, and the tiles on its border."""
    x, out = tensors[:2]
    m, k = x.shape[-2:]
    if out.shape[-2:] != (m, m):
        raise UnmodeledError("operands do not match")
    batch = numel(out) // max(m * m, 1)
    nbytes = count_read_bytes(x) + count_output_bytes(numel(out), out.dtype)
    cost = make_matrix_cost(float(batch * m * (m + 1) * k), nbytes, x.dtype, _SYMMETRIC)
    return cost._replace(most_flops=2.0 * batch * m * m * k if m > 1 else None)


_KERNELS: dict[str, Callable[[_Tensors], OpCost]] = {
    "fused_moe_kernel": _cost_experts,
    "XXT_kernel": _cost_symmetric_product,
    "ba_plus_cAA_kernel": _cost_symmetric_product,
}


def is_written_kernel(name: str) -> bool:
    """True if the name is of a hand-written Triton kernel whose arguments tell its cost."""
    named = _NAME.fullmatch(name)
    return named is not None and named["kernel"] in _KERNELS


def cost_written_kernel(call: OpCall) -> OpCost:
    """FLOPs and bytes of a launch of such a kernel."""
    named = _NAME.fullmatch(call.name)
    if named is None:
        raise UnmodeledError("no such kernel")
    return _KERNELS[named["kernel"]](tuple(walk_tensors(call.args)))
