"""Estimates the cost of ops that no formula covers.

Ops that only move data have no FLOPs, though a trace may have lost how much they move (lists of tensors, any sizes at
all). Of the ops of other packages the outputs are not recorded and what they compute is not known: their FLOPs are
unknown, and that each recorded tensor moves once is an estimate, never a known amount. Of ops that are given positions
(indices, offsets, tables of blocks) or a pool that they touch a part of (a cache of keys and values, experts), not even
that can be said.
"""

import re

from perfkit.cost.calls.args import count_read_bytes, infer_result_dtype, numel, walk_tensors
from perfkit.cost.calls.dtypes import BY_NAME, UNKNOWN
from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import MOVES
from perfkit.cost.formulas.free_ops import COMPOSITES, is_free

RECORDED_INPUTS = "estimate: recorded arguments once"  # the source of such a cost
BY_DATA = "memory traffic depends on data or was not recorded"
# vLLM passes these only the changing arguments; they look up the rest by layer name.
_EXPERTS = "expert weights and top_k are not among the arguments"
_CACHE = "sequence lengths and cache are not among the arguments"
_BY_LAYER = {
    **dict.fromkeys(("vllm::moe_forward", "vllm::moe_forward_shared"), _EXPERTS),
    **dict.fromkeys(
        (f"{package}::{name}" for package in ("vllm", "sglang") for name in (
            "unified_attention", "unified_attention_with_output", "unified_mla_attention",
            "unified_mla_attention_with_output",
        )),
        _CACHE,
    ),
}  # fmt: skip
UNTOLD = (BY_DATA, _EXPERTS, _CACHE)  # sources of costs of which nothing is known
_UNSIZED = "data movement of unknown size"
_POOL = re.compile(
    r"lookup|embedding|gather|index|cache|kv_buffer|paged|select|attn|attention|_fa\d_|::fwd|mla|mha|fmha|decode|prefill|"
    r"moe|expert",
    re.IGNORECASE,
)
_MULTIPLIES = re.compile(r"attn|attention|_fa\d_|::fwd|mla|mha|fmha|prefill|moe|expert", re.IGNORECASE)
_BACKWARD = re.compile(r"backward|CppNode", re.IGNORECASE)  # is given gradients, which it reads in full
_OWN = ("aten::", "prim::", "prims::", "profiler::", "autograd::", "torch::", "perfkit::", "inductor::")
_NAME = re.compile(r"\w+::[\w.]+")


def is_custom(name: str) -> bool:
    """True for an op of another package: with a namespace that is not torch's, and not a collective."""
    return (
        _NAME.fullmatch(name) is not None and not name.startswith(_OWN) and not is_free(name) and name not in COMPOSITES
    )


def estimate_fallback_cost(call: OpCall) -> OpCost | None:
    """Estimate an op without a formula: no FLOPs and unknown bytes if it only moves data; else bytes from its arguments
    and unknown FLOPs; both unknown where traffic depends on data; None without recorded tensors.

    Only for an op beneath which no costed op lies: otherwise that tells more. The caller decides which ops those are
    (`is_custom`, `MOVES`, and generated or hand-written kernels that are recorded under their own name).
    """
    if call.name in MOVES:
        return OpCost(0.0, None, ComputeUnit.VECTOR, "", _UNSIZED)
    tensors = [operand for operand in walk_tensors(call.args) if operand.dtype != UNKNOWN]
    if not tensors or not any(map(numel, tensors)):
        return None
    dtype = infer_result_dtype([operand for operand in tensors if operand.shape] or tensors)
    peak = BY_NAME[dtype].peak if dtype in BY_NAME else dtype
    pool = _POOL.search(call.name) is not None and not _BACKWARD.search(call.name)
    if pool or any(map(_has_positions, tensors)):
        unit = ComputeUnit.MATRIX if _MULTIPLIES.search(call.name) else ComputeUnit.VECTOR
        return OpCost(None, None, unit, peak, _BY_LAYER.get(call.name, BY_DATA))
    nbytes = count_read_bytes(*tensors)
    return OpCost(None, nbytes, ComputeUnit.VECTOR, peak, RECORDED_INPUTS) if nbytes else None


def _has_positions(value: TensorArg) -> bool:
    """Integers of 32 or 64 bits say where; several of them, for one may be a count or a seed."""
    return value.dtype in ("int64", "int32") and numel(value) > 1
