"""A variant against its baseline: one ratio per pair of processes, an interval, a verdict.

The processes of one round ran by turns or close together and share the machine's mood: they form a pair. One number per
pair, a log ratio, enters a t-interval.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from perfkit.analysis.model.estimate import Difference, SpeedVerdict
from perfkit.analysis.suite.runs import VariantRuns, merge_rank_steps
from perfkit.core.record.step_samples import compute_log_ratio
from perfkit.core.sampling import compute_log_interval, is_narrow, predict_round_count
from perfkit.core.student_t import compute_t_quantile

# An interval that contains 1 shows `no difference` only if it lies within these bounds, else it is inconclusive.
EQUIVALENCE = 1.05
POWER = 0.8


def compute_log_ratios(reference: VariantRuns, variant: VariantRuns, *, cpu: bool = False) -> list[float]:
    """The log ratio of each pair of runs that ended well, in the order of rounds, by wall time or the `cpu`'s.

    Where pairs stepped by turns, of those alone: their first runs had the machine to themselves, and fewer steps.
    """
    theirs = {run.repeat: run for run in reference.runs}
    by_turns: list[float] = []
    alone: list[float] = []
    for run in variant.runs:
        other = theirs.get(run.repeat)
        if other is None:
            continue
        together = reference.name in run.run.interleaved_variants
        ratio = compute_log_ratio(merge_rank_steps(other), merge_rank_steps(run), by_turns=together, cpu=cpu)
        if ratio is not None:
            (by_turns if together else alone).append(ratio)
    return by_turns or alone


def compare_to_baseline(baseline: str, logs: Sequence[float], *, precision: float | None = None) -> Difference | None:
    """The ratio variant / reference of a positive figure, from the log ratio of each pair; None without a pair.

    `baseline` is the baseline's name; `precision` is what pairs were measured until, None for a fixed number:
    the interval then keeps back what stopping when it is narrow costs (`perfkit.core.sampling.compute_log_interval`).

    `ratio` is the geometric mean of the pairs' ratios, the center of the 95 % t-interval. The verdict is
    `faster` or `slower` where the interval excludes 1, `no difference` where it contains 1 and stays within
    +-5 %, and `inconclusive` otherwise. A single pair is always inconclusive, whatever its ratio: between two
    processes of the same program a shared machine shows ratios that no single pair can be told apart from.
    `detectable` is the relative slowdown found with a probability of 80 %:
    exp((t(0.975) + t(0.8)) s / sqrt(n)) - 1 with n - 1 degrees of freedom.
    """
    if not logs:
        return None
    interval = compute_log_interval(logs, until_narrow=precision is not None)
    low, high = (None, None) if interval is None else (math.exp(interval[0]), math.exp(interval[1]))
    return Difference(
        baseline=baseline,
        ratio=math.exp(fmean(logs)),
        low=low,
        high=high,
        verdict=_decide_verdict(low, high),
        detectable=_compute_detectable(logs),
        pairs=len(logs),
        more_pairs=None if precision is None else _estimate_more_pairs(logs, precision),
    )


def _decide_verdict(low: float | None, high: float | None) -> SpeedVerdict:
    if low is None or high is None:
        return "inconclusive"
    if high < 1:
        return "faster"
    if low > 1:
        return "slower"
    return "no difference" if low >= 1 / EQUIVALENCE and high <= EQUIVALENCE else "inconclusive"


def _estimate_more_pairs(logs: Sequence[float], precision: float) -> int | None:
    needed = predict_round_count(logs, precision)
    return None if needed is None or is_narrow(logs, precision) else max(1, needed - len(logs))


def _compute_detectable(logs: Sequence[float]) -> float | None:
    n = len(logs)
    if n < 2:
        return None
    return (
        math.exp((compute_t_quantile(0.975, n - 1) + compute_t_quantile(POWER, n - 1)) * stdev(logs) / math.sqrt(n)) - 1
    )
