"""Derives facts from a trace, by the names that claims use.

CUDA graphs replay kernels without calling ops. Where steps replay graphs, recorded ops are incomplete: kernel names
supply the rest, and where they do not, only bounds of a fact are known.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from perfkit.analysis.trace.matmul_time import measure_matmul_time, shorten_names
from perfkit.analysis.trace.replayed_ops import count_replayed_calls, is_part_of_model, match_any
from perfkit.analysis.trace.roofline.fact_bounds import Fact, FactBounds
from perfkit.core.record.claim import Claim
from perfkit.core.record.trace_marks import PHASES
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.cost.kernels.gemm_kernel import classify_matrix_unit, is_matrix_kernel
from perfkit.trace.model import COMPILED_GRAPH, NONE
from perfkit.trace.ops.call_counts import count_kernel_calls, count_op_calls, count_range_calls, count_replayed_kernels
from perfkit.trace.ops.graph_replays import GraphReplays, find_graph_replays
from perfkit.trace.ops.ops import OpRole, Ops

OP_CALLS = "op_calls"
BACKWARD_OP_CALLS = "backward_op_calls"
RANGE_CALLS = "range_calls"
KERNEL_CALLS = "kernel_calls"
MATMUL_KERNEL_CALLS = "matmul_kernel_calls"
MATMUL_KERNEL_S = "matmul_kernel_s"
MATMUL_FLOPS_SHARE = "matmul_flops_share"
MATMUL_TIME_SHARE = "matmul_time_share"
GRAPH_LAUNCHES = "graph_launches"
COMPILED_FLOPS_SHARE = "compiled_flops_share"
DERIVED = (
    OP_CALLS,
    BACKWARD_OP_CALLS,
    RANGE_CALLS,
    KERNEL_CALLS,
    MATMUL_KERNEL_CALLS,
    MATMUL_KERNEL_S,
    MATMUL_FLOPS_SHARE,
    GRAPH_LAUNCHES,
    COMPILED_FLOPS_SHARE,
)

# Facts that replace others of the same detail, where a trace lacks them.
STANDS_FOR = {MATMUL_FLOPS_SHARE: MATMUL_TIME_SHARE}


def find_derived_names(claims: Iterable[Claim]) -> set[str]:
    """The derived facts that claims refer to."""
    named = {name for claim in claims for name in (claim.fact, claim.relative_to)}
    return {name for name in named if name.partition(":")[0] in DERIVED}


def derive_trace_facts(ops: Ops, names: Iterable[str], step_flops: float | None = None) -> dict[str, Fact]:
    """The values of derived facts, per step; their bounds where CUDA graphs were replayed.

    `op_calls:<globs>` and `backward_op_calls:<globs>` count ops, nested ones too, in all of a step or its backward
    phase; `range_calls:<globs>` counts ranges that the program marked;
    `kernel_calls:<globs>` counts device kernels, on a CPU compiled kernels; `<globs>` is a comma-separated list
    of patterns; `matmul_kernel_calls:<dtype>` counts matrix kernels that multiply in the dtype, as their names tell;
    `matmul_kernel_s:<dtypes>` is the time of those of one of several dtypes.
    `matmul_flops_share:<dtype>` is the share of the FLOPs of matrix products whose operands have the
    dtype; it is absent where the trace shows no matrix product. Where it shows some without FLOPs,
    `matmul_time_share:<dtype>` stands for it. `graph_launches` counts launches of CUDA graphs; it is absent where no
    device was traced. `compiled_flops_share` is the share of `step_flops`, the matrix FLOPs of a step as counted
    eagerly, without those of ops outside of compiled graphs; optimizers' ops count as compiled.
    """
    graphs = find_graph_replays(ops)
    facts: dict[str, Fact] = {}
    for name in names:
        kind, _, detail = name.partition(":")
        if kind == OP_CALLS:
            facts[name] = _count_op_calls(ops, graphs, detail)
        elif kind == BACKWARD_OP_CALLS:
            facts[name] = _count_op_calls(ops, graphs, detail, "backward")
        elif kind == RANGE_CALLS:
            facts[name] = _count_matching(count_range_calls(ops), detail)
        elif kind == KERNEL_CALLS:
            facts[name] = _count_matching(count_kernel_calls(ops), detail)
        elif kind == MATMUL_KERNEL_CALLS:
            facts[name] = sum(
                count for called, count in count_kernel_calls(ops).items() if _get_matmul_dtype(called) == detail
            )
        elif kind == MATMUL_KERNEL_S:
            facts[name] = _sum_matmul_kernel_s(ops, frozenset(detail.split(",")))
        elif kind == MATMUL_FLOPS_SHARE:
            facts |= _compute_matmul_share(ops, graphs, detail)
        elif kind == GRAPH_LAUNCHES and ops.trace.has_device_events:
            facts[name] = graphs.launches / max(len(ops.steps), 1)
        elif kind == COMPILED_FLOPS_SHARE and step_flops:
            facts[name] = max(1 - _sum_eager_flops(ops) / step_flops, 0.0)
    return facts


def _count_matching(calls: Mapping[str, float], globs: str) -> float:
    patterns = _split_patterns(globs)
    return sum(count for name, count in calls.items() if match_any(name, patterns))


def _sum_matmul_kernel_s(ops: Ops, dtypes: frozenset[str]) -> float:
    """Seconds per step of matrix kernels whose names show one of `dtypes`."""
    trace, event = ops.trace, ops.kernels.event
    if len(ops.steps):
        event = event[ops.kernel_step != NONE]
    names, of_event = np.unique(trace.name[event], return_inverse=True)
    shown = np.array([_get_matmul_dtype(trace.names[number]) in dtypes for number in names.tolist()], bool)
    if not shown.any():
        return 0.0
    event = event[shown[of_event.reshape(-1)]]
    return float((trace.end_ns[event] - trace.start_ns[event]).sum()) / 1e9 / max(len(ops.steps), 1)


def _get_matmul_dtype(kernel_name: str) -> str | None:
    named = classify_matrix_unit(kernel_name)
    return None if named is None else named[1]


def _split_patterns(globs: str) -> list[str]:
    return [pattern for pattern in globs.split(",") if pattern]


def _count_op_calls(ops: Ops, graphs: GraphReplays, globs: str, phase: str | None = None) -> Fact:
    """Calls that were seen, and those that replayed kernels stand for."""
    seen, patterns = _count_matching(count_op_calls(ops, phase), globs), _split_patterns(globs)
    if not graphs or all(pattern.startswith("##") for pattern in patterns):  # ranges are recorded in any case
        return seen
    kernels = count_replayed_kernels(ops, graphs, phase)
    replayed = count_replayed_calls(kernels, patterns)
    notes = []
    if replayed.sure:
        notes.append(f"{replayed.sure:,.0f} of them by the names of kernels replayed in CUDA graphs")
    low, high = seen + replayed.sure, seen + replayed.sure + replayed.may
    if replayed.may:
        notes.append(f"CUDA graphs replayed kernels with unclear names: {shorten_names(list(replayed.unclear))}")
    elif not replayed.sure and not graphs.lost:
        notes.append("CUDA graphs replayed no kernel named like this")
    if graphs.lost:
        high = math.inf
        notes.append(_describe_lost_replays(graphs))
    if low and not replayed.sure and is_part_of_model(patterns) and any(map(is_matrix_kernel, kernels)):
        # The model's GEMMs are inside graphs: a call outside says nothing about them.
        low = 0.0
        notes.append("those recorded ran outside the graphs, which contain most of the model")
    return FactBounds(low, high, "; ".join(notes))


def _compute_matmul_share(ops: Ops, graphs: GraphReplays, dtype: str) -> dict[str, Fact]:
    time = measure_matmul_time(ops, graphs)
    by_time = time.share(dtype)
    if by_time is not None and (time.unseen or graphs.lost):
        if graphs.lost:
            by_time = FactBounds(0.0, 1.0, f"{by_time.note}; {_describe_lost_replays(graphs)}")
        return {f"{MATMUL_TIME_SHARE}:{dtype}": by_time}
    if graphs.lost:
        return {}
    shares = _compute_matmul_flops_shares(ops)
    return {f"{MATMUL_FLOPS_SHARE}:{dtype}": shares.get(dtype, 0.0)} if shares else {}


def _describe_lost_replays(graphs: GraphReplays) -> str:
    return f"no kernels were recorded for {graphs.lost} of {graphs.launches} CUDA graph replays"


def _sum_eager_flops(ops: Ops) -> float:
    """Matrix FLOPs per step of ops outside of compiled graphs and of optimizers."""
    table = np.array([name.startswith(COMPILED_GRAPH) for name in ops.trace.names])
    compiled = np.append(table[ops.trace.name[ops.event]], False)  # NONE (-1) takes the last entry
    parent = np.append(ops.parent, NONE)
    around, inside = np.arange(len(ops)), np.zeros(len(ops), bool)
    while np.any(around != NONE):
        inside |= compiled[around]
        around = parent[around]
    matrix = np.array([call.cost.unit == ComputeUnit.MATRIX for call in ops.calls] + [False])[ops.call]
    counted = matrix & ~inside & (ops.role == OpRole.COSTED) & (ops.phase != PHASES.index("optimizer"))
    if len(ops.steps):
        counted &= ops.step != NONE
    return float(np.nansum(ops.flops[counted])) / max(len(ops.steps), 1)


def _compute_matmul_flops_shares(ops: Ops) -> dict[str, float]:
    flops: dict[str, float] = {}
    for role, step, call in zip(ops.role.tolist(), ops.step.tolist(), ops.call.tolist(), strict=True):
        if role != OpRole.COSTED or (step == NONE and len(ops.steps)):
            continue
        cost = ops.calls[call].cost
        if cost.unit == ComputeUnit.MATRIX and cost.flops:
            flops[cost.dtype] = flops.get(cost.dtype, 0.0) + cost.flops
    total = sum(flops.values())
    return {dtype: value / total for dtype, value in flops.items()} if total else {}
