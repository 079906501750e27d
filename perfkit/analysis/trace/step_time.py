"""The traced step of a rank: its time split, its most expensive ops, and its dots on the roofline."""

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit.analysis.model.step import LostKernels, OpRow, RooflinePoint, TimeShare
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace import timeline
from perfkit.analysis.trace.roofs import Roofs
from perfkit.analysis.trace.work.engine import analyse_work, summary_points
from perfkit.analysis.trace.work.placed import OUTSIDE, points, rows
from perfkit.trace.counters.match import CounterColumns
from perfkit.trace.ops import Ops

# Rows and dots beyond these are too small to matter and would only make the report large.
MOST_ROWS = 200
MOST_POINTS = 120


@dataclass(frozen=True)
class StepTime:
    """What a trace shows of a step. `modelled_share` is the share of working time with a cost and a ceiling, `kernels`
    the number of kernels and copies of a device, on a CPU of ops that do work themselves, `lost` what it lacks."""

    time_split: tuple[TimeShare, ...]
    traced_step_s: float
    modelled_share: float | None
    points: tuple[RooflinePoint, ...]
    ops: tuple[OpRow, ...]
    kernels: float
    lost: LostKernels | None = None


def step_time(ops: Ops, roofs: Roofs, counters: CounterColumns | None = None) -> StepTime | None:
    """Analyse the steps of a trace; None where it marks none. `counters` replace the model where they are known."""
    found = analyse_work(ops, roofs, counters)
    if not found.windows.are_steps:
        return None
    shares = found.split.shares(parts=found.parts)
    by_time = sorted(
        (
            row
            for row in rows(found.by_op, found.by_op.ranked(), found.step_s, of_kernels=False)
            if row.phase != OUTSIDE
        ),
        key=lambda row: -row.seconds,
    )
    return StepTime(
        time_split=shares,
        traced_step_s=found.step_s,
        modelled_share=_modelled(shares),
        points=(*summary_points(found), *points(found.by_op, "op", found.step_s, MOST_POINTS)),
        ops=tuple(by_time[:MOST_ROWS]),
        kernels=found.kernels_per_step,
        lost=found.lost,
    )


def of_trace(trace: RankTrace) -> StepTime | None:
    """The same of a trace that was analysed as a whole; None where it marks no steps."""
    if not trace.steps:
        return None
    within = sorted((row for row in trace.ops if row.phase != OUTSIDE), key=lambda row: -row.seconds)
    return StepTime(
        time_split=trace.time_split,
        traced_step_s=trace.step_s,
        modelled_share=_modelled(trace.time_split),
        points=trace.points,
        ops=tuple(within[:MOST_ROWS]),
        kernels=trace.kernels_per_step,
        lost=trace.lost,
    )


def _modelled(split: Sequence[TimeShare]) -> float | None:
    seconds = {part.category: part.seconds for part in split}
    bounds = (timeline.COMPUTE_BOUND, timeline.MEMORY_BOUND, timeline.LATENCY_BOUND)
    modelled = sum(seconds.get(category, 0.0) for category in bounds)
    total_s = modelled + seconds.get(timeline.UNMODELLED, 0.0)
    return modelled / total_s if total_s > 0 else None
