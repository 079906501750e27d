"""Error of modeled FLOPs and bytes against hardware counters, per op class."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.coverage import ModelErrorRow
from perfkit.analysis.trace.work.op_class import classify_op
from perfkit.analysis.trace.work.work_item_costs import compute_item_costs
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.trace.counters.match_counters import CounterColumns
from perfkit.trace.model import NONE

Floats = NDArray[np.float64]


def measure_model_error(pieces: WorkItems, counters: CounterColumns) -> tuple[ModelErrorRow, ...]:
    """Ratios of model to counter over the kernels that have both, the classes with the most time first.

    Args:
        counters: counts for the kernels, aligned with `pieces` (on a device they are the same rows).

    A kernel whose model or counter is 0 has no ratio and is left out. Bytes are compulsory traffic by the model and
    traffic of device memory by the counter, so that data still in a cache gives ratios above 1, and data that was
    fetched twice gives ratios below.
    """
    if not pieces.on_device:
        return ()
    modeled = compute_item_costs(pieces, np.full(len(pieces), np.nan))  # messages are no kernels' work
    labels = np.where(pieces.owner == NONE, pieces.name, pieces.label)
    used, which = np.unique(labels, return_inverse=True)
    classes = np.asarray([str(classify_op(pieces.ops.trace.names[label])) for label in used.tolist()], dtype=object)
    of_piece = classes[which] if len(used) else np.empty(0, object)
    rows = [
        *_build_error_rows("FLOPs", of_piece, pieces, modeled.flops, counters.flops),
        *_build_error_rows("bytes", of_piece, pieces, modeled.bytes, counters.dram_bytes),
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _build_error_rows(
    quantity: str, of_piece: NDArray[np.object_], pieces: WorkItems, model: Floats, counted: Floats
) -> Iterator[ModelErrorRow]:
    both = pieces.is_kind(WorkKind.WORK) & (np.nan_to_num(model) > 0) & (np.nan_to_num(counted) > 0)
    for name in sorted(set(of_piece[both].tolist())):
        mine = both & (of_piece == name)
        weight = pieces.busy_ns[mine].astype(np.float64)
        low, middle, high = compute_weighted_quantiles(model[mine] / counted[mine], weight, (0.1, 0.5, 0.9))
        yield ModelErrorRow(
            op_class=name,
            quantity=quantity,
            kernels=int(mine.sum()),
            seconds=float(weight.sum()) / 1e9,
            ratio=middle,
            low=low,
            high=high,
        )


def compute_weighted_quantiles(values: Floats, weights: Floats, at: tuple[float, ...]) -> tuple[float, ...]:
    """The weighted quantiles at these shares of the weight; without any weight, all values count equally."""
    order = np.argsort(values, kind="stable")
    total = weights[order] if weights.sum() > 0 else np.ones(len(values))
    reached = np.cumsum(total) / total.sum()
    # A share that rounding leaves a hair short of is reached.
    places = np.minimum(np.searchsorted(reached, np.asarray(at) - 1e-12), len(values) - 1)
    return tuple(float(value) for value in values[order][places])
