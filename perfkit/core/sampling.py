"""Decides how many rounds of processes a comparison takes: one log ratio a round, and an interval that becomes
narrow.

The process is the unit of statistics: steps of one process depend on each other and on the process (Kalibera and Jones,
ISMM 2013). docs/statistics.md has the error rates and the simulation behind them.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from perfkit.core.student_t import compute_t_quantile

LEVEL = 0.95

# From fewer processes a standard deviation is hardly known: intervals of three are narrow by chance too often.
LEAST_ROUNDS = 4

# No plan looks further ahead than this.
_MOST_ROUNDS = 1000


def compute_log_interval(logs: Sequence[float], *, until_narrow: bool = False) -> tuple[float, float] | None:
    """Student's two-sided interval at `LEVEL` of the mean of `logs`; None for fewer than two.

    `until_narrow`: sampling went on until the interval was narrow, which favors samples that agree by chance. Half of
    the error is then left to that, so that the interval still holds the mean in 95 % of cases.
    """
    if len(logs) < 2:
        return None
    half = _scale_half_width(stdev(logs), len(logs), until_narrow=until_narrow)
    center = fmean(logs)
    return center - half, center + half


def compute_difference_interval(
    before: Sequence[float], after: Sequence[float], *, until_narrow: bool = False
) -> tuple[float, float] | None:
    """Welch's two-sided interval at `LEVEL` of mean(`after`) - mean(`before`) of unpaired logs; None if either has
    fewer than two (Welch, Biometrika 34, 1947; degrees of freedom by Satterthwaite)."""
    if len(before) < 2 or len(after) < 2:
        return None
    parts = [(stdev(logs) ** 2 / len(logs), len(logs) - 1) for logs in (before, after)]
    variance = sum(part for part, _ in parts)
    center = fmean(after) - fmean(before)
    if not variance:
        return center, center
    freedom = variance**2 / sum(part**2 / free for part, free in parts)
    half = compute_t_quantile(1 - _get_tail_error(until_narrow=until_narrow), freedom) * math.sqrt(variance)
    return center - half, center + half


def compute_half_width(logs: Sequence[float]) -> float | None:
    """Compute the relative half-width of the interval of sampling until narrow; None for fewer than two."""
    interval = compute_log_interval(logs, until_narrow=True)
    return None if interval is None else math.expm1((interval[1] - interval[0]) / 2)


def is_narrow(logs: Sequence[float], precision: float, *, gain_share: float = 0.0) -> bool:
    """True if these rounds are enough: the interval reaches no further than `precision` (relative), or than
    `gain_share` of the gain that it is of."""
    width = compute_half_width(logs)
    if len(logs) < LEAST_ROUNDS or width is None:
        return False
    return math.log1p(width) <= max(math.log1p(precision), gain_share * abs(fmean(logs)))


def predict_round_count(logs: Sequence[float], precision: float) -> int | None:
    """Predict the number of rounds needed if the next ones vary as those so far; None before two are measured.

    Never fewer than `LEAST_ROUNDS`, and at most a thousand.
    """
    if len(logs) < 2:
        return None
    spread, reach = stdev(logs), math.log1p(precision)
    for count in range(max(LEAST_ROUNDS, len(logs)), _MOST_ROUNDS):
        if _scale_half_width(spread, count, until_narrow=True) <= reach:
            return count
    return _MOST_ROUNDS


def _scale_half_width(spread: float, count: int, *, until_narrow: bool) -> float:
    return compute_t_quantile(1 - _get_tail_error(until_narrow=until_narrow), count - 1) * spread / math.sqrt(count)


def _get_tail_error(*, until_narrow: bool) -> float:
    """The error probability of each tail of the interval."""
    return (1 - LEVEL) / (4 if until_narrow else 2)
