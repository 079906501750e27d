"""Work that a program could leave out, as the nesting of its ops and the graph of autograd show."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.trace import GraphWork, LayoutCopies, Recompute
from perfkit.analysis.trace.time.intervals import measure_length, merge_intervals, subtract_intervals
from perfkit.analysis.trace.work.roofline_groups import count_parts
from perfkit.analysis.trace.work.work_item_costs import WorkItemCosts
from perfkit.analysis.trace.work.work_items import Flags, WorkItems
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.event_nesting import find_nearest
from perfkit.trace.model import NONE
from perfkit.trace.ops.graph_use import mark_graph_nodes
from perfkit.trace.ops.layout_copies import find_layout_copies


def measure_recompute(work: WorkItems, costs: WorkItemCosts) -> Recompute | None:
    """Measure forward ops run again within backward; None without any."""
    again = np.append(work.ops.recomputed, False)[work.owner] & (work.step != NONE)
    if not again.any():
        return None
    parts = count_parts(work)
    return Recompute(
        ops=len(np.unique(work.owner[again])) / parts,
        seconds=int(work.busy_ns[again].sum()) / 1e9 / parts,
        flops=float(np.nansum(costs.flops[again])) / parts,
        bytes=float(np.nansum(costs.bytes[again])) / parts,
        around_s=0.0 if work.on_device else _measure_around_ns(work, again) / 1e9 / parts,
    )


def measure_graph_work(work: WorkItems, costs: WorkItemCosts, rows: NDArray[np.bool_]) -> GraphWork | None:
    """Measure the work of some ops within steps; None without any."""
    marked = np.append(rows, False)[work.owner] & (work.step != NONE)
    if not marked.any():
        return None
    parts = count_parts(work)
    return GraphWork(
        ops=len(np.unique(work.owner[marked])) / parts,
        seconds=int(work.busy_ns[marked].sum()) / 1e9 / parts,
        bytes=float(np.nansum(costs.bytes[marked])) / parts,
    )


def measure_layout_copies(work: WorkItems, costs: WorkItemCosts) -> LayoutCopies | None:
    """Measure the copies to another memory format that a CPU's convolutions make; None without any.

    The kernels of a device say by their names that they convert.
    """
    ops = work.ops
    copies = np.flatnonzero(find_layout_copies(ops) & (ops.step != NONE))
    if work.on_device or not len(copies):
        return None
    parts = count_parts(work)
    within = np.isin(work.owner, ops.owner[copies]) & (work.step != NONE)
    return LayoutCopies(
        copies=len(copies) / parts,
        seconds=int((ops.end_ns - ops.start_ns)[copies].sum()) / 1e9 / parts,
        convolutions_s=int(work.busy_ns[within].sum()) / 1e9 / parts,
        flops=float(np.nansum(costs.flops[within])) / parts,
    )


def _measure_around_ns(work: WorkItems, again: Flags) -> int:
    """A CPU's time without an op in the nodes that run ops again, where a checkpoint's hooks run, and before forward
    ops, which a checkpoint calls."""
    ops = work.ops
    around = find_nearest(ops.parent, mark_graph_nodes(ops))
    holding = np.unique(around[work.owner[again]])
    holding = holding[holding != NONE]
    nodes = merge_intervals(ops.start_ns[holding], ops.end_ns[holding])
    steps = merge_intervals(work.windows.spans[:, 0], work.windows.spans[:, 1])
    idle = subtract_intervals(steps, merge_intervals(work.start_ns, work.end_ns))
    forward = work.start_ns[(work.phase == PHASES.index("forward")) & (work.step != NONE)]
    before_forward = idle[np.isin(idle[:, 1], forward)]
    return measure_length(before_forward) + measure_length(nodes) - measure_length(subtract_intervals(nodes, idle))
