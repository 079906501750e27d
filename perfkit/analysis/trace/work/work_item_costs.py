"""FLOPs and bytes of each piece of work. An op's cost is shared among its kernels and never repeated.

What a kernel did of its op is not recorded, so its op's bytes are shared by time among the op's kernels. So are its
FLOPs, but where the op is a matrix product only among the kernels whose names say that they multiply (not among those
that pack an operand or add up partial sums). Fills and copies within the device take part where the op has no kernel.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.work.inferred_calls import fill_inferred_values
from perfkit.analysis.trace.work.named_costs import NamedCosts, estimate_named_costs
from perfkit.analysis.trace.work.reported_costs import read_reported_costs
from perfkit.analysis.trace.work.work_items import Flags, WorkItems, WorkKind
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.cost.fallback import RECORDED_INPUTS
from perfkit.cost.kernels.fp32_products import resolve_compute_dtype
from perfkit.cost.kernels.gemm_kernel import classify_matrix_unit, is_matrix_kernel
from perfkit.devices.ceilings.peak import Fp32Settings
from perfkit.trace.counters.match_counters import CounterColumns
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Category, Ints
from perfkit.trace.ops.cost_ops import SPARSE_OPERANDS, CostedCall

Floats = NDArray[np.float64]
Precision = tuple[ComputeUnit, str]  # the unit and the dtype of the operands that select a peak


@dataclass(frozen=True)
class WorkItemCosts:
    """Columns, one row a piece.

    Attributes:
        flops, bytes: NaN where not modeled. Bytes are traffic of the memory, for copies over a link that of the link,
            for collectives the size of the message. Where data decide, the least that it can be.
        most_flops, most_bytes: the most that it can be; the same where that is exact.
        unmasked_flops: with what a mask forbids, as MFU counts.
        precision: index into `precisions`, NONE where the piece has no cost.
        is_matrix: whether it multiplies matrices: its op is a matrix product, or its name says so.
        counted: whether its FLOPs and bytes were counted by the hardware.
        by_name: the costs that kernels' own names tell, and no op.
        estimated: whether its bytes are but those of recorded arguments: no time follows from them.
    """

    flops: Floats
    bytes: Floats
    most_flops: Floats
    most_bytes: Floats
    unmasked_flops: Floats
    precision: Ints
    precisions: tuple[Precision, ...]
    is_matrix: Flags
    counted: Flags
    estimated: Flags
    by_name: NamedCosts

    @property
    def is_bounded(self) -> Flags:
        """True if only the least and the most are known."""
        bounded: Flags = (self.most_flops > self.flops) | (self.most_bytes > self.bytes)
        return bounded

    def compute_s(self, roofs: Roofs, flops: Floats) -> Floats:
        """The least arithmetic time of each piece for some FLOPs, NaN where unknown.

        Vector work of unknown FLOPs and known bytes (fused pointwise and reducing kernels) counts as none, so that its
        bytes alone give a time that it cannot beat. Not so where these are but estimated.
        """
        ceilings = [roofs.compute(unit, dtype) for unit, dtype in self.precisions]
        peaks = np.asarray([*(np.nan if ceiling is None else ceiling.value for ceiling in ceilings), np.nan])
        vector = np.asarray([*(unit == ComputeUnit.VECTOR for unit, _ in self.precisions), False])
        seconds = np.where(flops == 0, 0.0, flops / peaks[self.precision])
        return np.where(np.isnan(flops) & vector[self.precision] & ~self.estimated, 0.0, seconds)


def compute_item_costs(
    pieces: WorkItems,
    message_bytes: Floats,
    counters: CounterColumns | None = None,
    fp32: Fp32Settings | None = None,
) -> WorkItemCosts:
    """The costs of all pieces.

    Args:
        message_bytes: per piece the size of a collective's message, NaN where it is none or the size is not known.
        counters: counts for `pieces.ops.kernels`, which replace the model where they are known.
        fp32: what the device computed fp32 products in where no kernel's name tells.
    """
    ops = pieces.ops
    precision, precisions, named_product = _find_precisions(pieces, fp32)
    flops, moved = _share_call_costs(pieces, named_product)
    if ops.trace.statements:
        for column, stated in zip((flops, moved), read_reported_costs(pieces), strict=True):
            np.copyto(column, stated, where=np.isnan(column))
    own = estimate_named_costs(pieces)
    if own.costs:
        table = np.asarray([(cost.flops, cost.bytes) for cost in own.costs])
        has_own = own.number != NONE
        flops[has_own], moved[has_own] = table[own.number[has_own]].T
        precision, precisions = _add_named_precisions(precision, precisions, own)
    uncosted = pieces.call == NONE
    recorded = ops.trace.moved_bytes[pieces.event]
    sizes = np.where(recorded < 0, np.nan, recorded.astype(np.float64))
    category = ops.trace.category[pieces.event]
    no_arithmetic = np.isnan(moved) & pieces.on_device & np.isin(category, [int(Category.COPY), int(Category.FILL)])
    flops[no_arithmetic | pieces.is_kind(WorkKind.COMMUNICATION)] = 0.0
    within = no_arithmetic & pieces.is_kind(WorkKind.WORK)
    # Within the device a copy reads and writes; over a link its bytes pass once.
    moved[within] = np.where(category[within] == Category.COPY, 2.0, 1.0) * sizes[within]
    over_link = pieces.is_kind(WorkKind.COPY)
    moved[over_link] = sizes[over_link]
    moved[pieces.is_kind(WorkKind.COMMUNICATION)] = message_bytes[pieces.is_kind(WorkKind.COMMUNICATION)]
    counted = np.zeros(len(pieces), np.bool_)
    if counters is not None and pieces.on_device:
        has_flops, has_bytes = ~np.isnan(counters.flops), ~np.isnan(counters.dram_bytes)
        flops, moved = np.where(has_flops, counters.flops, flops), np.where(has_bytes, counters.dram_bytes, moved)
        counted = has_flops & has_bytes
    matrix_call = np.asarray([*(call.cost.unit == ComputeUnit.MATRIX for call in ops.calls), False])[pieces.call]
    estimated = np.asarray([*(call.cost.source == RECORDED_INPUTS for call in ops.calls), False])[pieces.call]
    estimated &= ~counted & ~np.isnan(moved)
    # Also where the name shows no precision: a GEMM without FLOPs is still a GEMM. Products of sparse tensors are none.
    sparse = np.asarray([*(call.cost.source == SPARSE_OPERANDS for call in ops.calls), False])[pieces.call]
    unknown_call = uncosted | (np.isnan(flops) & ~sparse)
    is_matrix = matrix_call | (unknown_call & pieces.on_device & mark_named(ops.trace, pieces.event, is_matrix_kernel))
    more_flops, more_bytes, unmasked = (np.where(counted, 1.0, ratio) for ratio in _compute_ratios(pieces, own))
    return WorkItemCosts(
        flops,
        moved,
        flops * more_flops,
        moved * more_bytes,
        flops * unmasked,
        precision,
        precisions,
        is_matrix,
        counted,
        estimated,
        own,
    )


def _add_named_precisions(
    precision: Ints, precisions: tuple[Precision, ...], own: NamedCosts
) -> tuple[Ints, tuple[Precision, ...]]:
    """Add the precision of pieces whose cost follows from their names."""
    table = dict(zip(precisions, range(len(precisions)), strict=True))
    numbers = [table.setdefault((cost.unit, cost.dtype), len(table)) for cost in own.costs]
    return np.where(own.number == NONE, precision, np.asarray(numbers)[own.number]), tuple(table)


def _compute_ratios(pieces: WorkItems, own: NamedCosts) -> tuple[Floats, Floats, Floats]:
    """The ratios of each piece's maximum FLOPs and bytes, and unmasked FLOPs, to the values used."""
    calls = pieces.ops.calls
    costs = [*(call.cost for call in calls), *own.costs]
    table = [
        (
            _divide_or_one(cost.most_flops, cost.flops),
            _divide_or_one(cost.most_bytes, cost.bytes),
            _divide_or_one(cost.unmasked_flops, cost.flops),
        )
        for cost in costs
    ]
    of = np.where(own.number == NONE, pieces.call, own.number + len(calls))
    ratios = np.asarray([*table, (1.0, 1.0, 1.0)])[of]  # NONE (-1) takes the last row
    return ratios[:, 0], ratios[:, 1], ratios[:, 2]


def _divide_or_one(value: float | None, of: float | None) -> float:
    return value / of if value and of else 1.0


def _share_call_costs(pieces: WorkItems, named_product: Flags) -> tuple[Floats, Floats]:
    """Share the FLOPs and bytes of a call among its pieces."""
    ops = pieces.ops
    costed = pieces.call != NONE
    call = np.append(ops.call, NONE)[pieces.owner]
    total = (
        _make_call_table([call_cost.cost.flops for call_cost in ops.calls])[call],
        _make_call_table([call_cost.cost.bytes for call_cost in ops.calls])[call],
    )
    if not pieces.on_device:
        return np.where(costed, total[0], np.nan), np.where(costed, total[1], np.nan)
    # A kernel whose time was rounded to nothing still takes part.
    weight = np.where(costed, np.maximum(pieces.busy_ns, 1), 0).astype(np.float64)
    is_kernel = ops.trace.category[pieces.event] == Category.KERNEL
    by_time = _prefer_chosen(is_kernel, weight, pieces, len(ops))
    arithmetic = _prefer_chosen(named_product & is_kernel, by_time, pieces, len(ops))
    flops, moved = (
        _share_by_weight(total[0], arithmetic, pieces, len(ops)),
        _share_by_weight(total[1], by_time, pieces, len(ops)),
    )
    return fill_inferred_items(flops, pieces), fill_inferred_items(moved, pieces)


def _make_call_table(values: list[float | None]) -> Floats:
    """A table of call values, with NaN at its end, which NONE (-1) selects."""
    return np.asarray([*(np.nan if value is None else value for value in values), np.nan])


def fill_inferred_items(values: Floats, pieces: WorkItems) -> Floats:
    """A column of pieces, in which those whose op is only inferred have the mean of their like."""
    return fill_inferred_values(
        values, pieces.name, pieces.ops.trace.geometry[pieces.event], pieces.call, pieces.inferred
    )


def _prefer_chosen(chosen: Flags, weight: Floats, pieces: WorkItems, owners: int) -> Floats:
    """The weights of the chosen pieces, of all pieces where an op has none that is chosen."""
    preferred = np.where(chosen, weight, 0.0)
    sums = np.bincount(pieces.owner[pieces.owner != NONE], preferred[pieces.owner != NONE], owners)
    return np.where(np.append(sums, 0.0)[pieces.owner] > 0, preferred, weight)


def _share_by_weight(total: Floats, weight: Floats, pieces: WorkItems, owners: int) -> Floats:
    sums = np.bincount(pieces.owner[pieces.owner != NONE], weight[pieces.owner != NONE], owners)
    of = np.append(sums, 0.0)[pieces.owner]
    costed = pieces.call != NONE
    return np.where(costed, total * np.divide(weight, of, out=np.zeros(len(weight)), where=of > 0), np.nan)


def _find_precisions(pieces: WorkItems, fp32: Fp32Settings | None) -> tuple[Ints, tuple[Precision, ...], Flags]:
    """The precision of each piece, the table of them, and which kernels' names say that they multiply matrices.

    The operands' dtype and unit are the call's, and torch's settings tell what fp32 is to be computed in; a kernel's
    name tells more, since it may run an fp32 product in TF32 on matrix units or on vector units all the same.
    """
    table: dict[Precision, int] = {}

    def number(precision: Precision) -> int:
        return table.setdefault(precision, len(table))

    calls = [number(_get_call_precision(call, fp32)) for call in pieces.ops.calls]
    matrix_calls = np.asarray([*(call.cost.unit == ComputeUnit.MATRIX for call in pieces.ops.calls), False])
    precision = np.asarray([*calls, NONE], np.int64)[pieces.call]
    if not pieces.on_device:
        return precision, tuple(table), np.zeros(len(pieces), np.bool_)
    names = pieces.ops.trace.names
    used, inverse = np.unique(pieces.name, return_inverse=True)
    named_units = [classify_matrix_unit(names[name]) for name in used.tolist()]
    by_name = np.asarray([NONE if unit is None else number(unit) for unit in named_units], np.int64)[inverse]
    named = by_name != NONE
    # A counted kernel has arithmetic of its own without a call.
    replaced = named & (matrix_calls[pieces.call] | (pieces.call == NONE))
    return np.where(replaced, by_name, precision), tuple(table), named


def _get_call_precision(call: CostedCall, fp32: Fp32Settings | None) -> Precision:
    cost = call.cost
    return cost.unit, resolve_compute_dtype(
        call.call.name, cost.dtype, fp32
    ) if cost.unit == ComputeUnit.MATRIX else cost.dtype
