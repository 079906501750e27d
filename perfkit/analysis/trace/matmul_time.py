"""Dtypes of GEMMs, by the time of their kernels.

Products that CUDA graphs replay, and templates of torch.compile of which too little was recorded, have no FLOPs: their
kernels' names and time are all that is known. 16 bits are faster than 32, so that a dtype of 16 bits has at most as
large a share of the time as of the FLOPs.
"""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.trace.replayed_ops import is_recognized
from perfkit.analysis.trace.roofline.fact_bounds import FactBounds
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_percent
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.cost.kernels.gemm_kernel import infer_operand_dtypes, is_matrix_kernel
from perfkit.trace.model import NONE, Category
from perfkit.trace.ops.graph_replays import GraphReplays
from perfkit.trace.ops.ops import Ops

_MOST_NAMES = 3
_LONGEST_NAME = 60

Dtypes = frozenset[str]


@dataclass(frozen=True)
class MatmulTime:
    """Nanoseconds of matrix kernels by the dtypes that their operands may have; by name where that is not known.

    `unseen` is how many of them are of products without FLOPs.
    """

    known: dict[Dtypes, int]
    unclear: dict[str, int]
    unseen: int

    def share(self, dtype: str) -> FactBounds | None:
        """The share of the time in which operands had the dtype; None where no matrix kernel took any time.

        A kernel whose name tells only that it takes 16 bits counts for either type of these.
        """
        unclear = sum(self.unclear.values())
        total = sum(self.known.values()) + unclear
        if not total:
            return None
        low = sum(time for dtypes, time in self.known.items() if dtype in dtypes) / total
        note = "from kernel names and times, because GEMMs without an op have no FLOPs"
        if unclear:
            names = sorted(self.unclear, key=lambda name: -self.unclear[name])
            note += f"; unclear for {format_percent(unclear / total)} of that time: {shorten_names(names)}"
        return FactBounds(low, low + unclear / total, note)


def measure_matmul_time(ops: Ops, graphs: GraphReplays) -> MatmulTime:
    """The time of the matrix kernels of the steps. Kernels of graphs that nothing is known of count as unclear."""
    kernels, trace = ops.kernels, ops.trace
    inside = trace.category[kernels.event] == Category.KERNEL
    if len(ops.steps):
        inside &= ops.kernel_step != NONE
    event = kernels.event[inside]
    call = np.append(ops.call, NONE)[ops.kernel_owner[inside]]
    replayed = graphs.kernels[inside]
    durations = trace.end_ns[event] - trace.start_ns[event]
    # The dtype comes from a call's own cost, else from the kernel's name.
    rows = np.stack([call.astype(np.int64), trace.name[event].astype(np.int64), replayed.astype(np.int64)], axis=1)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    times = np.bincount(which.reshape(-1), durations, len(distinct)).astype(np.int64)
    known: dict[Dtypes, int] = {}
    unclear: dict[str, int] = {}
    unseen = 0
    for (index, number, of_graph), time in zip(distinct.tolist(), times.tolist(), strict=True):
        name = trace.names[number]
        cost = None if index == NONE or of_graph else ops.calls[index].cost
        if (cost is not None and cost.unit != ComputeUnit.MATRIX) or not _can_multiply(
            name, of_graph or cost is not None
        ):
            continue
        dtypes = frozenset({cost.dtype}) if cost is not None else infer_operand_dtypes(name)
        if dtypes:
            known[dtypes] = known.get(dtypes, 0) + time
        else:
            unclear[name] = unclear.get(name, 0) + time
        unseen += time if of_graph or (cost is not None and cost.flops is None) else 0
    return MatmulTime(known, unclear, unseen)


def shorten_names(names: list[str]) -> str:
    """The first few names, cut where they are long."""
    cut = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names]
    return list_first(cut, _MOST_NAMES)


def _can_multiply(name: str, in_product: bool | int) -> bool:
    """Within a product or a graph, kernels that nothing is known of may multiply, too."""
    return is_matrix_kernel(name) or (bool(in_product) and not is_recognized(name))
