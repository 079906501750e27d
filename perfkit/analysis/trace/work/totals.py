"""Many groups of work together: a module, a phase, a step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.step import RooflinePoint
from perfkit.analysis.trace.roofline import BOUNDS, UNKNOWN, Limit, Work, point
from perfkit.analysis.trace.work.costs import Precision
from perfkit.analysis.trace.work.pieces import Kind
from perfkit.analysis.trace.work.placed import Placed
from perfkit.trace.read import NONE

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Total:
    """Many groups together, of the whole trace: FLOPs, bytes and attainable times that are known add up.

    `modelled_s` is the time of what is known; `precision` and `bound` are those of most of the FLOPs and of most of
    the attainable time.
    """

    calls: float
    seconds: float
    flops: float | None
    bytes: float | None
    attainable_s: float | None
    modelled_s: float
    precision: Precision | None
    bound: str


def total(placed: Placed, chosen: NDArray[np.int64]) -> Total:
    """The sum of some groups, given by their numbers."""
    work = chosen[placed.pieces.kind[placed.first[chosen]] == Kind.WORK]
    attainable = placed.limits.attainable_s
    known = work[~np.isnan(attainable[work])]
    by_bound = np.bincount(placed.limits.bound[known], attainable[known], len(BOUNDS))
    return Total(
        calls=float(placed.calls[chosen].sum()),
        seconds=float(placed.seconds[chosen].sum()),
        flops=_sum_known(placed.flops[work]),
        bytes=_sum_known(placed.bytes[work]),
        attainable_s=float(attainable[known].sum()) if len(known) else None,
        modelled_s=float(placed.seconds[known].sum()),
        precision=_most_flops(placed, work),
        bound=BOUNDS[int(by_bound.argmax())] if len(known) else UNKNOWN,
    )


def _sum_known(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.sum()) if len(known) else None


def _most_flops(placed: Placed, chosen: NDArray[np.int64]) -> Precision | None:
    known = chosen[placed.precision[chosen] != NONE]
    if not len(known):
        return None
    sums = np.bincount(placed.precision[known], np.nan_to_num(placed.flops[known]))
    return placed.costs.precisions[int(sums.argmax())]


def total_point(kind: str, name: str, found: Total, seconds: float, step_s: float, parts: int) -> list[RooflinePoint]:
    """One dot for many groups, in so many seconds per step; none without FLOPs and bytes."""
    if found.precision is None or found.flops is None or found.bytes is None:
        return []
    attainable = None if found.attainable_s is None else found.attainable_s / parts
    work = Work(found.flops / parts, found.bytes / parts, *found.precision)
    dot = point(kind, name, 1.0, seconds, step_s, work, Limit(attainable, found.bound))
    return [] if dot is None else [dot]
