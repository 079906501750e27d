"""Estimates how much a quantity got worse: a mean on a scale on which positive is worse.

The scale is the log ratio, on which swapping the sides only changes the sign. If a figure can be 0, it is the
difference as a share of the mean before.
"""

import math
from dataclasses import dataclass

from perfkit.check.judge.student import MeanEstimate
from perfkit.core.student_t import compute_t_quantile

POWER = 0.95
# Larger numbers of pairs are reported as unaffordable.
TOO_MANY = 100_000


@dataclass(frozen=True, kw_only=True)
class Worsening:
    """A worsening: `mean` of `samples` pairs, or of two groups of about that size.

    `margin` is the threshold on the same scale, None without one: negative if the value before is beyond a limit,
    infinite if no worsening reaches it."""

    mean: MeanEstimate
    samples: int
    more_is_worse: bool
    margin: float | None = None
    logarithmic: bool = True

    @property
    def bound(self) -> float:
        """The bound that a worsening exceeds: 0, or the limit if the value before is beyond it."""
        return 0.0 if self.margin is None else min(0.0, self.margin)

    @property
    def p_worse(self) -> float:
        return self.mean.compute_p_above(self.bound)

    @property
    def p_better(self) -> float:
        return self.mean.compute_p_below(0.0)

    def compute_change(self, worse: float) -> float:
        """A worsening on this scale as a relative change of the quantity, after / before - 1."""
        signed = worse if self.more_is_worse else -worse
        if not self.logarithmic:
            return signed
        try:
            return math.expm1(signed)
        except OverflowError:
            return math.inf

    def compute_interval(self, alpha: float) -> tuple[float, float] | None:
        """Both one-sided bounds of the relative change, lower first; None if unbounded."""
        reach = self.mean.compute_reach(alpha)
        if not math.isfinite(reach):
            return None
        ends = self.compute_change(self.mean.value - reach), self.compute_change(self.mean.value + reach)
        return min(ends), max(ends)

    def compute_detectable(self, alpha: float, family: int = 1) -> float:
        """The smallest relative worsening (positive) that data with this spread detect with a probability of 95 %.

        Detected means `worse` or `fail`: the estimate exceeds the test's reach, reach + t(0.95) s / sqrt(n).
        """
        reach = self.mean.compute_reach(alpha / family)
        return abs(self.compute_change(reach + compute_t_quantile(POWER, self.mean.freedom) * self.mean.error))

    def count_samples_to_decide(self, alpha: float) -> int | None:
        """Total number of samples to decide; None if too many or nothing is undecided.

        This many distinguish a worsening of the threshold's size from none. If that many are there already, the change
        lies between, and the number is what separates the estimate from the farther of the two.
        """
        if self.margin is None or self.margin <= 0 or not math.isfinite(self.margin):
            return None
        needed = count_samples_needed(self.spread, self.margin, alpha)
        if needed is not None and needed <= self.samples:
            nearer = min(max(self.mean.value, 0.0), self.margin)
            needed = count_samples_needed(self.spread, max(nearer, self.margin - nearer), alpha)
        return None if needed is None else max(needed, self.samples + 2)

    @property
    def spread(self) -> float:
        """The standard deviation between samples."""
        return self.mean.error * math.sqrt(self.samples)


def count_samples_needed(spread: float, difference: float, alpha: float) -> int | None:
    """The least n with (t(1 - alpha) + t(0.95)) spread / sqrt(n) <= difference, n - 1 degrees of freedom."""
    if difference <= 0:
        return None
    low, high = 1, 2
    while _compute_smallest(spread, high, alpha) > difference:
        low, high = high, 2 * high
        if low > TOO_MANY:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _compute_smallest(spread, middle, alpha) <= difference else (middle, high)
    return high


def _compute_smallest(spread: float, samples: int, alpha: float) -> float:
    return (
        (compute_t_quantile(1 - alpha, samples - 1) + compute_t_quantile(POWER, samples - 1))
        * spread
        / math.sqrt(samples)
    )


def convert_to_log_scale(margin: float | None, *, more_is_worse: bool) -> float | None:
    """A relative margin as a log ratio in the worse direction: 3 % more is log 1.03, 3 % less -log 0.97."""
    if margin is None:
        return None
    if more_is_worse:
        return math.log1p(margin) if margin > -1 else -math.inf
    return -math.log1p(-margin) if margin < 1 else math.inf
