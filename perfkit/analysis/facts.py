"""Facts that the analysis derives from a trace, by the names that claims use."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from perfkit.cost.call import Unit
from perfkit.record import Claim
from perfkit.trace.counts import kernel_calls, op_calls
from perfkit.trace.ops import Ops, Role
from perfkit.trace.read import NONE

OP_CALLS = "op_calls"
BACKWARD_OP_CALLS = "backward_op_calls"
KERNEL_CALLS = "kernel_calls"
MATMUL_FLOPS_SHARE = "matmul_flops_share"
DERIVED = (OP_CALLS, BACKWARD_OP_CALLS, KERNEL_CALLS, MATMUL_FLOPS_SHARE)


def derived_names(claims: Iterable[Claim]) -> set[str]:
    """The derived facts that claims refer to."""
    named = {name for claim in claims for name in (claim.fact, claim.relative_to)}
    return {name for name in named if name.partition(":")[0] in DERIVED}


def trace_facts(ops: Ops, names: Iterable[str]) -> dict[str, float]:
    """The values of derived facts, per step.

    `op_calls:<globs>` and `backward_op_calls:<globs>` count ops, nested ones too, in all of a step or its backward
    phase; `kernel_calls:<globs>` counts device kernels, on a CPU compiled kernels; `<globs>` is a comma-separated list
    of patterns. `matmul_flops_share:<dtype>` is the share of the FLOPs of matrix products whose operands have the
    dtype; it is absent where the trace shows no matrix product.
    """
    everywhere, backward, kernels = op_calls(ops), op_calls(ops, "backward"), kernel_calls(ops)
    shares = _matmul_shares(ops)
    facts: dict[str, float] = {}
    for name in names:
        kind, _, detail = name.partition(":")
        if kind == OP_CALLS:
            facts[name] = _matching(everywhere, detail)
        elif kind == BACKWARD_OP_CALLS:
            facts[name] = _matching(backward, detail)
        elif kind == KERNEL_CALLS:
            facts[name] = _matching(kernels, detail)
        elif kind == MATMUL_FLOPS_SHARE and shares:
            facts[name] = shares.get(detail, 0.0)
    return facts


def _matching(calls: Mapping[str, float], globs: str) -> float:
    patterns = [pattern for pattern in globs.split(",") if pattern]
    return sum(count for name, count in calls.items() if any(fnmatchcase(name, pattern) for pattern in patterns))


def _matmul_shares(ops: Ops) -> dict[str, float]:
    flops: dict[str, float] = {}
    for role, step, call in zip(ops.role.tolist(), ops.step.tolist(), ops.call.tolist(), strict=True):
        if role != Role.COSTED or (step == NONE and len(ops.steps)):
            continue
        cost = ops.calls[call].cost
        if cost.unit == Unit.MATRIX and cost.flops:
            flops[cost.dtype] = flops.get(cost.dtype, 0.0) + cost.flops
    total = sum(flops.values())
    return {dtype: value / total for dtype, value in flops.items()} if total else {}
