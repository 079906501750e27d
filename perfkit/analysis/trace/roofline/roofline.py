"""Places work on the roofline (Williams, Waterman, Patterson 2009): its bound and its attainable time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.devices.ceilings.ceiling import CeilingLevel

Floats = NDArray[np.float64]

# Above a roof by more than this is a modeling or measuring error, not noise of the ceiling.
TOLERANCE = 1.05

# A call that could be done within this is bound by what every call costs (dispatching an op on a CPU, starting a kernel
# on a GPU, both some microseconds), not by its arithmetic or its bytes, if it is also far from its limit.
CALL_COST_S = 2e-6
FAR = 10

COMPUTE = "compute"
MEMORY = "memory"
LATENCY = "latency"
UNKNOWN = "unknown"
BOUNDS = (COMPUTE, MEMORY, LATENCY, UNKNOWN)

# Levels of memory, the slowest first.
LEVELS = (CeilingLevel.MEMORY, CeilingLevel.L3, CeilingLevel.L2)


@dataclass(frozen=True)
class RooflineLimit:
    """The least time some work can take: max(FLOPs / peak, bytes / bandwidth), and which of the two it is.

    `level` is the memory level whose bandwidth was taken. `attainable_s` is None, and `bound` `unknown`, where
    the cost or a ceiling is not known; it is `latency` for calls too small for either to matter.
    """

    attainable_s: float | None
    bound: str
    level: str = CeilingLevel.MEMORY
    above_roof: bool = False


@dataclass(frozen=True)
class RooflineLimits:
    """Limits of many groups of work as columns: `attainable_s` NaN where it is not known, `bound` indexes `BOUNDS`,
    `level` indexes `LEVELS`.
    """

    attainable_s: Floats
    bound: NDArray[np.int8]
    level: NDArray[np.int8]
    above_roof: NDArray[np.bool_]

    def __getitem__(self, row: int) -> RooflineLimit:
        known = not np.isnan(self.attainable_s[row])
        return RooflineLimit(
            attainable_s=float(self.attainable_s[row]) if known else None,
            bound=BOUNDS[self.bound[row]],
            level=LEVELS[self.level[row]],
            above_roof=bool(self.above_roof[row]),
        )


def compute_limits(compute_s: Floats, moved: Floats, seconds: Floats, calls: Floats, roofs: Roofs) -> RooflineLimits:
    """The limits of groups of work that took `seconds` in a number of calls.

    Modeled bytes are those that an op must move; where its operands were still in a cache it moved them faster
    than the memory can. Work that is faster than the memory's bandwidth is therefore held against the next
    faster level that is known, and only what exceeds them all, or the peak rate, is `above_roof`. A cache of known
    capacity serves no more than that of a call: the rest must come from the memory. Where the cache's bandwidth is not
    known, work that it may have served is as fast as it was: nothing is to be saved, as far as is known.

    Args:
        compute_s: FLOPs / peak of each group, 0 for none, NaN where either is not known.
        moved: bytes, NaN where not known.
    """
    memory_s, level = _compute_memory_s(moved, seconds, calls, roofs)
    attainable = np.maximum(compute_s, memory_s)  # NaN where either is
    tiny = (attainable < CALL_COST_S * calls) & (seconds > FAR * attainable)
    by_compute = (compute_s >= memory_s) & (compute_s > 0)
    known = np.where(tiny, BOUNDS.index(LATENCY), np.where(by_compute, BOUNDS.index(COMPUTE), BOUNDS.index(MEMORY)))
    return RooflineLimits(
        attainable_s=attainable,
        bound=np.where(np.isnan(attainable), BOUNDS.index(UNKNOWN), known).astype(np.int8),
        level=level,
        above_roof=seconds * TOLERANCE < attainable,
    )


def combine_limits(least: RooflineLimits, most: RooflineLimits, seconds: Floats) -> RooflineLimits:
    """The limits of work of which the least and the most are known: no gain is claimed that the most would not leave.

    It cannot have done more than its time allows: where the most would be above a roof, all of its time may be needed.
    """
    kept = least.above_roof | (most.attainable_s == least.attainable_s)
    attainable = np.where(kept, least.attainable_s, np.minimum(most.attainable_s, seconds))
    bound = np.where(kept, least.bound, most.bound).astype(np.int8)
    level = np.where(kept, least.level, most.level).astype(np.int8)
    return RooflineLimits(attainable, bound, level, least.above_roof)


def _compute_memory_s(moved: Floats, seconds: Floats, calls: Floats, roofs: Roofs) -> tuple[Floats, NDArray[np.int8]]:
    # All work takes time; without a known bandwidth, none is limited by one.
    known = any(roofs.find_bandwidth(name) is not None for name in LEVELS)
    time_s = np.where((moved == 0) & known, 0.0, np.nan)
    level = np.zeros(len(moved), np.int8)
    for index, name in enumerate(LEVELS):
        ceiling = roofs.find_bandwidth(name)
        if ceiling is not None:
            faster = moved / ceiling.value
            better = np.isnan(time_s) | ((time_s > seconds * TOLERANCE) & (faster < time_s))
        elif roofs.get_capacity(name) is not None:
            faster, better = seconds, time_s > seconds * TOLERANCE
        else:
            continue
        better &= _compute_uncached_s(name, moved, calls, roofs) <= seconds * TOLERANCE
        time_s, level = np.where(better, faster, time_s), np.where(better, index, level).astype(np.int8)
    return time_s, level


def _compute_uncached_s(level: CeilingLevel, moved: Floats, calls: Floats, roofs: Roofs) -> Floats:
    """The least time of the bytes that a cache cannot hold, 0 where its capacity is not known."""
    capacity, memory = roofs.get_capacity(level), roofs.find_bandwidth(CeilingLevel.MEMORY)
    if capacity is None or memory is None:
        return np.zeros(len(moved))
    return np.maximum(np.nan_to_num(moved) - capacity * calls, 0.0) / memory.value
