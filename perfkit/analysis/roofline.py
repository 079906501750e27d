"""Placing work on the roofline (Williams, Waterman, Patterson 2009): what bounds it, and what it could reach."""

from dataclasses import dataclass

from perfkit.analysis.result import RooflinePoint
from perfkit.analysis.roofs import Roofs
from perfkit.cost.call import Unit
from perfkit.devices.ceiling import Ceiling, Level

# Above a roof by more than this is a modelling or measuring error, not noise of the ceiling.
TOLERANCE = 1.05

# A call that could be done within this is bound by what every call costs (dispatching an op on a CPU, starting a kernel
# on a GPU, both some microseconds), not by its arithmetic or its bytes, if it is also far from its limit.
CALL_COST_S = 2e-6
FAR = 10

COMPUTE = "compute"
MEMORY = "memory"
OVERHEAD = "overhead"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Work:
    """FLOPs and bytes of some work, and the unit and dtype whose peak bounds it. None where not modelled."""

    flops: float | None
    bytes: float | None
    unit: Unit
    dtype: str


@dataclass(frozen=True)
class Limit:
    """The least time some work can take: max(FLOPs / peak, bytes / bandwidth), and which of the two it is.

    `level` is the memory level whose bandwidth was taken. `attainable_s` is None, and `bound` `unknown`, where
    the cost or a ceiling is not known; it is `overhead` for calls too small for either to matter.
    """

    attainable_s: float | None
    bound: str
    level: str = Level.MEMORY
    above_roof: bool = False


def limit(work: Work, seconds: float, roofs: Roofs, calls: float = 1.0) -> Limit:
    """The limit of work that took `seconds` in so many calls.

    Modelled bytes are those that an op must move; where its operands were still in a cache it moved them faster
    than the memory can. Work that is faster than the memory's bandwidth is therefore held against the next
    faster level that is known, and only what exceeds them all, or the peak rate, is `above_roof`.
    """
    compute_s = _compute_s(work, roofs)
    bandwidths = [ceiling for level in (Level.MEMORY, Level.L3, Level.L2) if (ceiling := roofs.bandwidth(level))]
    if compute_s is None or work.bytes is None or (work.bytes > 0 and not bandwidths):
        return Limit(None, UNKNOWN)
    memory_s, level = _memory_s(work.bytes, seconds, bandwidths)
    attainable = max(compute_s, memory_s)
    tiny = attainable < CALL_COST_S * calls and seconds > FAR * attainable
    return Limit(
        attainable_s=attainable,
        bound=OVERHEAD if tiny else COMPUTE if compute_s >= memory_s and compute_s > 0 else MEMORY,
        level=level,
        above_roof=seconds * TOLERANCE < attainable,
    )


def _compute_s(work: Work, roofs: Roofs) -> float | None:
    if work.flops is None:
        return None
    if work.flops == 0:
        return 0.0
    ceiling = roofs.compute(work.unit, work.dtype)
    return None if ceiling is None else work.flops / ceiling.value


def _memory_s(moved: float, seconds: float, bandwidths: list[Ceiling]) -> tuple[float, str]:
    time_s, level = 0.0, str(Level.MEMORY)
    if moved == 0:
        return time_s, level
    for ceiling in bandwidths:
        faster = moved / ceiling.value
        if time_s == 0.0 or faster < time_s:
            time_s, level = faster, str(ceiling.level)
        if time_s <= seconds * TOLERANCE:
            break
    return time_s, level


def point(
    kind: str, name: str, calls: float, seconds: float, step_s: float, work: Work, bounded: Limit, shapes: str = ""
) -> RooflinePoint | None:
    """A dot of the roofline; None for work without FLOPs, bytes or time, which has no place on two log axes."""
    if not work.flops or not work.bytes or seconds <= 0 or step_s <= 0:
        return None
    return RooflinePoint(
        kind=kind,
        name=name,
        calls=calls,
        seconds=seconds,
        share=seconds / step_s,
        flops=work.flops,
        bytes=work.bytes,
        intensity=work.flops / work.bytes,
        achieved=work.flops / seconds,
        unit=work.unit,
        dtype=work.dtype,
        bound=bounded.bound,
        attainable_s=bounded.attainable_s,
        above_roof=bounded.above_roof,
        level=bounded.level,
        shapes=shapes,
    )
