"""Share of the kernel time with known costs, and the reasons for the rest."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.coverage import Coverage, ModelErrorRow, UncoveredWork
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.work.work_item_costs import WorkItemCosts, compute_item_costs
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.cost.fallback import UNTOLD
from perfkit.cost.formula_table import has_formula
from perfkit.cost.kernels.gemm_kernel import is_gemm
from perfkit.cost.op_class import classify_op
from perfkit.devices.device_calls import is_graph_launch
from perfkit.trace.counters.match_counters import CounterColumns
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE
from perfkit.trace.ops.kernels import KernelLink, is_compiled_region
from perfkit.trace.ops.ops import Ops

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


# Names beyond these are grouped by reason.
MOST_UNCOVERED = 1000

_REASONS = (
    "no launch recorded",
    "launched outside any op",
    "replayed by a graph with unknown capture",
    "message size not recorded",
    "copy size not recorded",
    "no shapes recorded",
    "no formula",
    "FLOPs not modeled",
    "sizes or dtype unknown",
    "generated code: kernel arguments not recorded",
    "no op with recorded sizes: K unknown from kernel name and grid",
    "arguments of the formula not recorded",
    *UNTOLD,
)
_NO_LAUNCH, _NO_OP, _REPLAYED, _NO_MESSAGE, _NO_SIZE, _NO_SHAPES, _NO_FORMULA, _NO_FLOPS, _NO_BYTES = range(9)
_GENERATED, _NO_K, _NO_ARGUMENTS, _UNTOLD = 9, 10, 11, 12  # and those after it


def measure_coverage(
    pieces: WorkItems, costs: WorkItemCosts, above_roof: NDArray[np.bool_], counters: CounterColumns | None = None
) -> Coverage:
    """Measure the explained share of all pieces, including those outside steps.

    A compute kernel is explained by its op's FLOPs and bytes (0 FLOPs for data movement), a fill or copy by its
    recorded size, a collective by the size of its message: these have no FLOPs, so that nothing else is missing.
    `flops_s` and `bytes_s` are the time explained in this sense; bytes estimated from recorded arguments do not count.
    """
    time = pieces.busy_ns
    no_flops, no_bytes = np.isnan(costs.flops), np.isnan(costs.bytes) | costs.estimated
    linked = pieces.owner != NONE
    if pieces.on_device:
        linked = pieces.ops.kernel_op != NONE
    exchanging = pieces.is_kind(WorkKind.COMMUNICATION)
    replayed = joined = np.zeros(len(pieces), np.bool_)
    if pieces.on_device:
        joined = pieces.ops.kernels.link == KernelLink.CAPTURE
        replayed = joined | _find_replayed_kernels(pieces.ops)
    return Coverage(
        kernel_s=_sum_seconds(time),
        kernels=len(pieces),
        linked_s=_sum_seconds(time[linked]),
        inferred_s=_sum_seconds(time[pieces.inferred]),
        bounded_s=_sum_seconds(time[costs.is_bounded]),
        estimated_s=_sum_seconds(time[costs.estimated]),
        flops_s=_sum_seconds(time[~no_flops & ~(exchanging & no_bytes)]),
        bytes_s=_sum_seconds(time[~no_bytes]),
        counted_s=_sum_seconds(time[costs.counted]),
        above_roof_s=_sum_seconds(time[above_roof]),
        replayed_kernels=int(replayed.sum()),
        joined_kernels=int(joined.sum()),
        joined_s=_sum_seconds(time[joined]),
        uncovered=list_uncovered_work(pieces, no_flops, no_bytes),
        model_error=() if counters is None else measure_model_error(pieces, counters),
    )


def _sum_seconds(times: NDArray[np.int64]) -> float:
    return int(times.sum()) / 1e9


def list_uncovered_work(
    pieces: WorkItems, no_flops: NDArray[np.bool_], no_bytes: NDArray[np.bool_]
) -> tuple[UncoveredWork, ...]:
    """The work without FLOPs or bytes, by name and reason, the longest first."""
    chosen = np.flatnonzero((no_flops | no_bytes) & (pieces.busy_ns > 0))
    if not len(chosen):
        return ()
    reason = _find_reasons(pieces, no_flops)[chosen]
    by_kernel = np.isin(reason, (_NO_LAUNCH, _NO_OP, _REPLAYED, _GENERATED, _NO_K))
    names = np.where(by_kernel, pieces.name[chosen], pieces.label[chosen])
    groups = group_rows(names, reason)
    total = int(pieces.busy_ns.sum())
    sums = groups.sum_by_group(pieces.busy_ns[chosen])

    def uncovered(name: str, why: int, time_ns: float) -> UncoveredWork:
        return UncoveredWork(name=name, seconds=time_ns / 1e9, share=time_ns / total, reason=_REASONS[why])

    order = np.argsort(-sums, kind="stable")
    lacking = [
        uncovered(pieces.ops.trace.names[int(names[first])], int(reason[first]), float(sums[index]))
        for index, first in zip(order[:MOST_UNCOVERED].tolist(), groups.first[order[:MOST_UNCOVERED]], strict=True)
    ]
    others = order[MOST_UNCOVERED:]
    whys = np.bincount(reason[groups.first[others]], sums[others], len(_REASONS))
    lacking += [uncovered("(others)", why, float(whys[why])) for why in np.flatnonzero(whys).tolist()]
    return tuple(sorted(lacking, key=lambda row: -row.seconds))


def _find_replayed_kernels(ops: Ops) -> NDArray[np.bool_]:
    """Mask the kernels launched by graphs."""
    launch = ops.kernels.launch
    called = launch != NONE
    replayed = np.zeros(len(launch), np.bool_)
    replayed[called] = mark_named(ops.trace, launch[called], is_graph_launch)
    return replayed


def _find_reasons(pieces: WorkItems, no_flops: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The reason that a piece is not explained; undefined for those that are."""
    ops = pieces.ops
    has_shapes = np.append(ops.trace.signature[ops.event] != NONE, False)[pieces.owner]
    launched, replayed = np.ones(len(pieces), np.bool_), np.zeros(len(pieces), np.bool_)
    if pieces.on_device:
        launched = (ops.kernels.launch != NONE) | (ops.kernel_op != NONE)
        replayed = _find_replayed_kernels(ops)
    why = {source: _UNTOLD + place for place, source in enumerate(UNTOLD)}
    untold = np.asarray([*(why.get(call.cost.source, NONE) for call in ops.calls), NONE])[pieces.call]
    region = np.append(mark_named(ops.trace, ops.event, is_compiled_region), False)[pieces.owner]
    alone = pieces.on_device & ((pieces.owner == NONE) | region)
    return np.select(
        [
            pieces.is_kind(WorkKind.COMMUNICATION),
            pieces.is_kind(WorkKind.COPY),
            (pieces.owner == NONE) & replayed,
            alone & mark_named(ops.trace, pieces.event, is_gemm),
            ~launched,
            pieces.owner == NONE,
            untold != NONE,
            (pieces.call != NONE) & no_flops,
            region,
            ~has_shapes,
            pieces.call != NONE,
            np.append(mark_named(ops.trace, ops.event, has_formula), False)[pieces.owner],
        ],
        [
            _NO_MESSAGE,
            _NO_SIZE,
            _REPLAYED,
            _NO_K,
            _NO_LAUNCH,
            _NO_OP,
            untold,
            _NO_FLOPS,
            _GENERATED,
            _NO_SHAPES,
            _NO_BYTES,
            _NO_ARGUMENTS,
        ],
        _NO_FORMULA,
    )
