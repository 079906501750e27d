"""The hierarchical roofline: kernels by their counted traffic of each level of memory.

One kernel has a dot a level: the same FLOP/s at an intensity of its own, FLOPs / bytes of that level (Yang, Kurth and
Williams, "Hierarchical Roofline Analysis for GPUs", 2020, section II). Dots of a level that lie close to those of the
level above it move data that the cache in between does not keep.
"""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.roofline.roofline import MEMORY, UNKNOWN
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.work.roofline_groups import RooflineGroups, count_parts
from perfkit.devices.ceilings.ceiling import CeilingLevel
from perfkit.trace.counters.match_counters import CounterColumns
from perfkit.trace.model import NONE

L1 = "l1"

# Dots of further kernels are too small to matter.
MOST_KERNELS = 40


def build_level_points(
    placed: RooflineGroups, counters: CounterColumns, roofs: Roofs, step_s: float
) -> tuple[OpRow, ...]:
    """Dots of kind `kernel` for L1, L2 and device memory (`level`), of the kernels within steps that were counted.

    `attainable_s` is the time that the level's bandwidth allows, None where that is not known (datasheets give none
    for L1).
    """
    pieces, groups = placed.pieces, placed.groups
    if not pieces.on_device:
        return ()
    parts, names = count_parts(pieces), pieces.ops.trace.names
    flops = groups.sum_by_group(counters.flops)
    levels: tuple[tuple[str, NDArray[np.float64]], ...] = (
        (L1, groups.sum_by_group(counters.l1_bytes)),
        (CeilingLevel.L2, groups.sum_by_group(counters.l2_bytes)),
        (CeilingLevel.MEMORY, groups.sum_by_group(counters.dram_bytes)),
    )
    bandwidths = {str(level): roofs.find_bandwidth(level) for level in (CeilingLevel.L2, CeilingLevel.MEMORY)}
    dots: list[OpRow] = []
    counted = np.flatnonzero(~np.isnan(flops) & (pieces.step[groups.first] != NONE) & (placed.precision != NONE))
    for index in counted[np.argsort(-placed.seconds[counted], kind="stable")][:MOST_KERNELS].tolist():
        unit, dtype = placed.costs.precisions[int(placed.precision[index])]
        calls, seconds = float(placed.calls[index]) / parts, float(placed.seconds[index]) / parts
        work = float(flops[index]) / parts
        for level, column in levels:
            moved = float(column[index]) / parts
            if not work or not moved > 0 or seconds <= 0 or step_s <= 0:  # NaN where it was not counted
                continue
            roof = bandwidths.get(level)
            dots.append(
                OpRow(
                    kind="kernel",
                    name=names[int(pieces.name[groups.first[index]])],
                    calls=calls,
                    seconds=seconds,
                    share=seconds / step_s,
                    flops=work,
                    bytes=moved,
                    intensity=work / moved,
                    flops_per_s=work / seconds,
                    bound=UNKNOWN if roof is None else MEMORY,
                    attainable_s=None if roof is None else moved / roof.value,
                    cost_source="counted",
                    unit=str(unit),
                    dtype=dtype,
                    level=level,
                )
            )
    return tuple(dots)
