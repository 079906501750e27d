"""Ranges of the gains of a traced step: from what goes for certain to all that a fix touches."""

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import fmean, stdev

from msgspec.structs import replace

from perfkit.analysis.model.finding import Finding, GainRange
from perfkit.analysis.model.matmul_rows import ProductRow
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.trace import GraphWork, Recompute, StepRow
from perfkit.core.student_t import compute_t_quantile

# What a fix may leave out: rows of tables, and work that autograd's graph shows.
RemovedWork = OpRow | ProductRow | GraphWork | Recompute

_LEAST_STEPS = 3  # of which the spread is known


def count_calls(work: RemovedWork) -> float:
    """The calls of ops, per step."""
    return work.ops if isinstance(work, GraphWork | Recompute) else work.calls


def estimate_refill_s(removed: Iterable[RemovedWork], bandwidth: float | None) -> float:
    """The time in which other ops read from memory again what these displaced from the caches: at most their bytes.

    Work that is faster than memory was in the caches, where its calls displace each other: the bytes of one call.
    """
    if bandwidth is None:
        return 0.0
    refill_s = 0.0
    for work in removed:
        moved_s = (work.bytes or 0.0) / bandwidth
        one_call_s = moved_s / max(1.0, count_calls(work))
        refill_s += moved_s if moved_s <= work.seconds else min(work.seconds, one_call_s)
    return refill_s


def measure_step_error(steps: Sequence[StepRow]) -> float:
    """Half the 95 % interval of the mean traced step, as a share of it: how far a mean over these steps may be off.

    Student's interval; 0 with fewer than 3 steps, which show no spread.
    """
    times = [step.seconds for step in steps]
    if len(times) < _LEAST_STEPS or fmean(times) <= 0:
        return 0.0
    return compute_t_quantile(0.975, len(times) - 1) * stdev(times) / sqrt(len(times)) / fmean(times)


def range_gains(finding: Finding, ranges: Iterable[GainRange], error: float, step_s: float) -> Finding:
    """The finding with these ranges, those of time wider by the error of the traced steps.

    None exceeds the step, and what a simulation saves lies within.
    """
    return replace(
        finding,
        gains=tuple(
            _widen(gain, finding.simulated_s or 0.0, error, step_s) if gain.unit == "s" else gain for gain in ranges
        ),
    )


def _widen(gain: GainRange, simulated_s: float, error: float, step_s: float) -> GainRange:
    low = None if gain.low is None else gain.low * max(0.0, 1 - error)
    if gain.high is None:
        return replace(gain, low=low)
    most = max(gain.high, simulated_s)
    high = most * (1 + error)
    # A gain of more than the step covers several streams, or time that no step shows.
    return replace(gain, low=low, high=min(high, max(step_s, most)) if step_s > 0 else high)


def scale_range(gain: GainRange, factor: float) -> GainRange:
    """A range of time on another clock; bytes stay."""
    if gain.unit != "s":
        return gain
    low, high = (None if end is None else end * factor for end in (gain.low, gain.high))
    return replace(gain, low=low, high=high)
