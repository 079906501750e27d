"""Utilization of a trace's device: matrix FLOPs of a step over the device's capacity in its time.

MFU counts the FLOPs that forward and backward need, HFU also recomputation and the optimizer's products. By convention
(PaLM, appendix B) both count attention over all pairs of positions, masked ones too, and matrix products alone, against
the vendor's dense peak of the dtype that most of them have, or of the mix where that is fp32
(`perfkit.analysis.trace.roofline.flops_utilization`).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.step import AT_LEAST
from perfkit.analysis.trace.roofline.device_roofs import DeviceRoofs
from perfkit.analysis.trace.roofline.flops_utilization import Computed, compute_utilization, sum_device_peaks
from perfkit.analysis.trace.work.roofline_groups import count_parts
from perfkit.analysis.trace.work.work_item_costs import WorkItemCosts, fill_inferred_items
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.core.record.quantity import Measurement, Quantity, QuantityOrigin, Unknown
from perfkit.core.record.rank_record import Flops
from perfkit.core.record.trace_marks import PHASES
from perfkit.core.units import format_percent
from perfkit.cost.formulas.attention_mask import UNMASKED
from perfkit.devices.ceilings.ceiling import Ceiling
from perfkit.trace.model import NONE
from perfkit.trace.ops.graph_replays import find_graph_replays

# The least share of matrix kernel time with known FLOPs for a utilization.
_LEAST_COVERED = 0.98

_OPTIMIZER = PHASES.index("optimizer")


class MatrixUtilization(NamedTuple):
    """Matrix FLOPs of a step, required by forward and backward and as executed, and the utilizations. `masked_flops`
    are those of masked pairs that attention kernels skipped.

    `computed` splits the FLOPs that ran by unit and by what they were computed in, `unit` and `dtype` are those of most
    of them; all empty where they are not known. `refuted` are the measured ceilings that the steps were faster than.
    """

    model_flops: Quantity
    hardware_flops: Quantity
    mfu: Quantity
    hfu: Quantity
    unit: str = ""
    dtype: str = ""
    computed: Mapping[Computed, float] = {}
    refuted: tuple[Ceiling, ...] = ()
    masked_flops: float = 0.0


def _make_unknown(reason: str) -> MatrixUtilization:
    nothing = Unknown(reason=reason)
    return MatrixUtilization(nothing, nothing, nothing, nothing)


def compute_matrix_utilization(
    pieces: WorkItems,
    costs: WorkItemCosts,
    step_s: float,
    roofs: DeviceRoofs,
    *,
    some_lost: bool = False,
    device: int | None = None,
) -> MatrixUtilization:
    """FLOPs, MFU and HFU of the steps, unknown with the reason where no peak or not all matrix products are known.

    They are those of one `device`, or of all that compute, over the sum of their peaks.

    The utilizations are lower bounds where kernels of the steps were lost (`some_lost`), or where the amount of work
    depends on data.
    """
    # Kernels of a product that only pack operands or add up partial sums have no FLOPs, and their time does not count.
    within = pieces.step != NONE if device is None else (pieces.step != NONE) & (pieces.device == device)
    matrix = costs.is_matrix & (costs.flops != 0) & pieces.is_kind(WorkKind.WORK) & within
    known = matrix & ~np.isnan(costs.flops)
    if not known.any():
        why = (
            "no GEMM, convolution or attention with known FLOPs recorded"
            if not matrix.any()
            else "FLOPs of the GEMMs unknown: no shapes recorded, or no ops for the kernels (as with CUDA graphs)"
        )
        return _make_unknown(why)
    covered = int(pieces.busy_ns[known].sum()) / max(int(pieces.busy_ns[matrix].sum()), 1)
    if covered < _LEAST_COVERED:
        why = f"FLOPs known for only {format_percent(covered, 0)} of GEMM time"
        why += " (CUDA graphs replay kernels without ops)" if find_graph_replays(pieces.ops) else ""
        return _make_unknown(why)
    sums = np.bincount(costs.precision[known], costs.flops[known]) / count_parts(pieces)
    computed = {costs.precisions[index]: float(sums[index]) for index in np.flatnonzero(sums).tolist()}
    limit = sum_device_peaks(roofs, computed, np.unique(pieces.device[within & (matrix | pieces.computes)]).tolist())
    again = fill_inferred_items(np.append(pieces.ops.recomputed, False)[pieces.owner].astype(np.float64), pieces)
    ran = float(costs.flops[known].sum()) / count_parts(pieces)
    required = (1 - again) * (pieces.phase != _OPTIMIZER)
    needed = float((costs.unmasked_flops * required)[known].sum()) / count_parts(pieces)
    masked = float((costs.unmasked_flops - costs.flops)[known].sum()) / count_parts(pieces)
    bound = AT_LEAST if some_lost or (costs.most_flops > costs.flops)[known].any() else ""
    convention = "of forward and backward without recomputation" + (f"; {UNMASKED}" if masked else "")
    model, hardware = _make_measurement(needed, convention, bound), _make_measurement(ran, "as executed", bound)
    used = compute_utilization(Flops(model=model, hardware=hardware, masked=masked), step_s, limit)
    return MatrixUtilization(
        model,
        hardware,
        used.mfu,
        used.hfu,
        *max(computed, key=computed.__getitem__),
        computed,
        used.refuted,
        masked,
    )


def _make_measurement(value: float, what: str, bound: str) -> Measurement:
    source = f"matrix FLOPs of the trace's ops, {what}"
    return Measurement(value=value, unit="FLOP", how=QuantityOrigin.MODELED, source=source, bound=bound)
