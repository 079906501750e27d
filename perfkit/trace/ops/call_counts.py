"""Counts calls of ops, for claims about a technique's effect."""

import numpy as np
from numpy.typing import NDArray

from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.model import NONE, Category
from perfkit.trace.ops.graph_replays import GraphReplays
from perfkit.trace.ops.kernels import is_compiled_kernel
from perfkit.trace.ops.ops import Ops


def count_op_calls(ops: Ops, phase: str | None = None) -> dict[str, float]:
    """Calls of each op per step, in all of a step or in one of its phases.

    Every call is counted, nested ones too: `aten::linear` as well as the `aten::addmm` within it. Ops outside of steps
    are left out; a trace that marks no steps counts as one.
    """
    inside = ops.step != NONE if len(ops.steps) else np.ones(len(ops), bool)
    if phase is not None:
        inside = inside & (ops.phase == PHASES.index(phase))
    return _count_per_step(ops.trace.name[ops.event[inside]], ops)


def count_range_calls(ops: Ops) -> dict[str, float]:
    """Ranges that the program marked, per step, as ops are counted. Each optimizer of torch marks its steps."""
    marked = ops.trace.select_events(Category.RANGE)
    if len(ops.steps):
        marked = marked[ops.steps.locate_times(ops.trace.start_ns[marked]) != NONE]
    return _count_per_step(ops.trace.name[marked], ops)


def count_kernel_calls(ops: Ops) -> dict[str, float]:
    """Kernels per step: those of devices where any ran, else the CPU kernels that torch.compile generated.

    A kernel belongs to the step in which it was launched. One whose launch was not recorded is not counted.
    """
    trace = ops.trace
    if trace.has_device_events:
        launched = (ops.kernel_op != NONE) | (ops.kernels.launch != NONE)
        if len(ops.steps):
            launched &= ops.kernel_step != NONE
        return _count_per_step(trace.name[ops.kernels.event[launched]], ops)
    inside = ops.step != NONE if len(ops.steps) else np.ones(len(ops), bool)
    per_step = _count_per_step(trace.name[ops.event[inside]], ops)
    return {name: calls for name, calls in per_step.items() if is_compiled_kernel(name)}


def count_replayed_kernels(ops: Ops, graphs: GraphReplays, phase: str | None = None) -> dict[str, float]:
    """Kernels that graphs replayed, per step, in all of a step or in one of its phases; no copies and no fills."""
    chosen = graphs.kernels & (ops.trace.category[ops.kernels.event] == Category.KERNEL)
    if phase is not None:
        chosen = chosen & (ops.kernel_phase == PHASES.index(phase))
    return _count_per_step(ops.trace.name[ops.kernels.event[chosen]], ops)


def _count_per_step(names: NDArray[np.int32], ops: Ops) -> dict[str, float]:
    steps = max(len(ops.steps), 1)
    indices, counts = np.unique(names, return_counts=True)
    table = ops.trace.names
    return {table[name]: count / steps for name, count in zip(indices.tolist(), counts.tolist(), strict=True)}
