"""Work that autograd's graph shows to be left out: run again, run twice, or of nodes that nothing uses."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.trace import GraphWork, Recompute
from perfkit.analysis.trace.work.roofline_rows import count_parts
from perfkit.analysis.trace.work.work_item_costs import WorkItemCosts
from perfkit.analysis.trace.work.work_items import WorkItems
from perfkit.trace.model import NONE


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
    )


def measure_graph_work(work: WorkItems, rows: NDArray[np.bool_]) -> GraphWork | None:
    """Measure the work of some ops within steps; None without any."""
    marked = np.append(rows, False)[work.owner] & (work.step != NONE)
    if not marked.any():
        return None
    parts = count_parts(work)
    return GraphWork(
        ops=len(np.unique(work.owner[marked])) / parts, seconds=int(work.busy_ns[marked].sum()) / 1e9 / parts
    )
