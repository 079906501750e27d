"""A variant against its baseline: one ratio per pair of processes, an interval, a verdict.

Runs of a suite are interleaved, so the processes of one repeat ran close together and share the machine's mood:
they form a pair. One number per pair, the log ratio of the two medians, enters a t-interval.
"""

import math
from collections.abc import Mapping
from statistics import fmean, stdev

from perfkit.analysis.model.estimate import Difference
from perfkit.sampling import log_interval, t_quantile

# An interval that contains 1 shows `no difference` only if it lies within these bounds, else it is inconclusive.
EQUIVALENCE = 1.05
POWER = 0.8


def compare(baseline: str, reference: Mapping[int, float], variant: Mapping[int, float]) -> Difference | None:
    """The ratio variant / reference of a positive figure, from processes paired by repeat; None without a pair.

    Args:
        baseline: the baseline's name.
        reference: per repeat, the baseline's figure (seconds).
        variant: per repeat, the variant's figure (seconds).

    `ratio` is the geometric mean of the pairs' ratios, the centre of the 95 % t-interval. The verdict is
    `faster` or `slower` where the interval excludes 1, `no difference` where it contains 1 and stays within
    +-5 %, and `inconclusive` otherwise. A single pair is always inconclusive, whatever its ratio: between two
    processes of the same program a shared machine shows ratios that no single pair can be told apart from.
    `detectable` is the relative slow-down found with a probability of 80 %:
    exp((t(0.975) + t(0.8)) s / sqrt(n)) - 1 with n - 1 degrees of freedom.
    """
    logs = [math.log(variant[repeat] / reference[repeat]) for repeat in sorted(reference.keys() & variant.keys())]
    if not logs:
        return None
    interval = log_interval(logs)
    low, high = (None, None) if interval is None else (math.exp(interval[0]), math.exp(interval[1]))
    return Difference(
        baseline=baseline,
        ratio=math.exp(fmean(logs)),
        low=low,
        high=high,
        verdict=_verdict(low, high),
        detectable=_detectable(logs),
        pairs=len(logs),
    )


def _verdict(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "inconclusive"
    if high < 1:
        return "faster"
    if low > 1:
        return "slower"
    return "no difference" if low >= 1 / EQUIVALENCE and high <= EQUIVALENCE else "inconclusive"


def _detectable(logs: list[float]) -> float | None:
    n = len(logs)
    if n < 2:
        return None
    return math.exp((t_quantile(0.975, n - 1) + t_quantile(POWER, n - 1)) * stdev(logs) / math.sqrt(n)) - 1
