"""Many groups of work together: a module, a phase, a step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.roofline.roofline import BOUNDS, UNKNOWN
from perfkit.analysis.trace.work.roofline_groups import RooflineGroups, count_parts
from perfkit.analysis.trace.work.roofline_rows import compute_roof_share
from perfkit.analysis.trace.work.work_item_costs import Precision
from perfkit.analysis.trace.work.work_items import WorkKind
from perfkit.core.units import format_percent
from perfkit.devices.ceilings.ceiling import CeilingLevel
from perfkit.trace.model import NONE

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupTotal:
    """Many groups together, of the whole trace: FLOPs, bytes and attainable times that are known add up, without bytes
    that are but estimated. The attainable time of what is above its roof is not known, and none exceeds the time taken.

    `seconds` are summed over threads and streams, `wall_s` is how long any of it was going on where these overlap,
    `critical_s` what of it lies on the critical path where that is known.
    `modeled_s` is the time of what is known; `precision` and `bound` are those of most of the FLOPs and of most of
    the attainable time.
    """

    calls: float
    seconds: float
    flops: float | None
    bytes: float | None
    attainable_s: float | None
    modeled_s: float
    precision: Precision | None
    bound: str
    wall_s: float | None = None
    critical_s: float | None = None


def sum_groups(placed: RooflineGroups, chosen: NDArray[np.int64]) -> GroupTotal:
    """The sum of some groups, given by their numbers."""
    work = chosen[placed.pieces.kind[placed.first[chosen]] == WorkKind.WORK]
    attainable = placed.limits.attainable_s
    known = work[~np.isnan(attainable[work]) & ~placed.limits.above_roof[work]]
    by_bound = np.bincount(placed.limits.bound[known], attainable[known], len(BOUNDS))
    return GroupTotal(
        calls=float(placed.calls[chosen].sum()),
        seconds=float(placed.seconds[chosen].sum()),
        flops=_sum_known(placed.flops[work]),
        bytes=_sum_known(placed.bytes[work[~placed.estimated[work]]]),
        attainable_s=float(np.minimum(attainable, placed.seconds)[known].sum()) if len(known) else None,
        modeled_s=float(placed.seconds[known].sum()),
        precision=_find_main_precision(placed, work),
        bound=BOUNDS[int(by_bound.argmax())] if len(known) else UNKNOWN,
        wall_s=placed.measure_wall_s(chosen),
        critical_s=None if placed.critical_s is None else float(placed.critical_s[chosen].sum()),
    )


def _sum_known(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.sum()) if len(known) else None


def _find_main_precision(placed: RooflineGroups, chosen: NDArray[np.int64]) -> Precision | None:
    known = chosen[placed.precision[chosen] != NONE]
    if not len(known):
        return None
    sums = np.bincount(placed.precision[known], np.nan_to_num(placed.flops[known]))
    return placed.costs.precisions[int(sums.argmax())]


def build_total_row(
    placed: RooflineGroups,
    sums: GroupTotal,
    step_s: float,
    *,
    kind: str,
    name: str,
    module: str = "",
    phase: str = "",
    bound: str = "",
) -> OpRow:
    """Build a row for many groups. Savings are known for modeled work; the rest is kept as is.

    They are bound by what bounds most of their time, unless `bound` is given.
    """
    parts = count_parts(placed.pieces)
    # Unmodeled time counts as attainable, so that no savings are claimed for it.
    rest = sums.seconds - sums.modeled_s
    attainable = None if sums.attainable_s is None else (sums.attainable_s + rest) / parts
    unit, dtype = ("", "") if sums.precision is None else (str(sums.precision[0]), sums.precision[1])
    seconds, wall = sums.seconds / parts, None if sums.wall_s is None else sums.wall_s / parts
    intensity = sums.flops / sums.bytes if sums.flops is not None and sums.bytes else None
    return OpRow(
        kind=kind,
        name=name,
        phase=phase,
        module=module,
        calls=sums.calls / parts,
        seconds=seconds,
        share=(seconds if wall is None else wall) / step_s if step_s > 0 else 0.0,
        flops=None if sums.flops is None else sums.flops / parts,
        bytes=None if sums.bytes is None else sums.bytes / parts,
        intensity=intensity,
        flops_per_s=sums.flops / sums.seconds if sums.flops is not None and intensity and sums.seconds > 0 else None,
        bound=bound or sums.bound,
        attainable_s=attainable,
        efficiency=compute_roof_share(attainable, seconds),
        cost_source=f"{format_percent(sums.modeled_s / sums.seconds, 0)} of time modeled" if sums.seconds > 0 else "",
        unit=unit,
        dtype=dtype,
        wall_s=wall,
        critical_s=None if sums.critical_s is None else sums.critical_s / parts,
    )


def build_roofline_dot(
    kind: str, name: str, sums: GroupTotal, seconds: float, step_s: float, parts: int
) -> list[OpRow]:
    """Build one roofline dot for many groups, which took some seconds of a step of `step_s` together.

    None without FLOPs, bytes or time: two log axes have no place for it.
    """
    if sums.precision is None or not sums.flops or not sums.bytes or min(seconds, step_s, sums.seconds) <= 0:
        return []
    unit, dtype = sums.precision
    attainable = None if sums.attainable_s is None else sums.attainable_s / parts
    return [
        OpRow(
            kind=kind,
            name=name,
            calls=1.0,
            seconds=seconds,
            share=seconds / step_s,
            flops=sums.flops / parts,
            bytes=sums.bytes / parts,
            intensity=sums.flops / sums.bytes,
            flops_per_s=sums.flops / parts / seconds,
            bound=sums.bound,
            attainable_s=attainable,
            cost_source=f"{format_percent(sums.modeled_s / sums.seconds, 0)} of time modeled",
            unit=str(unit),
            dtype=dtype,
            level=CeilingLevel.MEMORY,
        )
    ]
