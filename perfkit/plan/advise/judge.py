"""Compares estimates of a step's variants by a goal, and by whether they fit."""

import math
from typing import NamedTuple

from perfkit.plan.advise.advice import Goal
from perfkit.plan.advise.estimates import VariantEstimate
from perfkit.plan.variants.verdict import check_fit


class Worth(NamedTuple):
    """Sort key of an estimate: bytes above the limit, then value by the goal (more is better)."""

    lacks: float
    value: float


class Judge(NamedTuple):
    """Compares two estimates of one step by a goal; `notable` are the significant differences by figure."""

    goal: Goal
    limit_bytes: float | None
    notable: Worth

    def compute_worth(self, estimate: VariantEstimate) -> Worth:
        """The worth of an estimate: 0 bytes lacking if it fits, infinite if unknown."""
        return Worth(self._compute_lacking(estimate), self._compute_value(estimate))

    def is_better(self, one: VariantEstimate, other: VariantEstimate) -> bool:
        """True if an estimate is better by a notable difference; what fits is better than what does not."""
        mine, theirs = self.compute_worth(one), self.compute_worth(other)
        notable = 0.0 if 0.0 in (mine.lacks, theirs.lacks) else self.notable.lacks
        if mine.lacks != theirs.lacks and abs(mine.lacks - theirs.lacks) > notable:
            return mine.lacks < theirs.lacks
        return mine.value > theirs.value + self.notable.value

    def order(self, estimate: VariantEstimate) -> tuple[float, float]:
        """Sort by worth, best first."""
        worth = self.compute_worth(estimate)
        return worth.lacks, -worth.value

    def _compute_lacking(self, estimate: VariantEstimate) -> float:
        if self.limit_bytes is None:
            return 0.0
        return math.inf if estimate.needed is None else max(0.0, estimate.needed.high - self.limit_bytes)

    def _compute_value(self, estimate: VariantEstimate) -> float:
        if self.goal == "memory":
            return -math.inf if estimate.needed is None else -estimate.needed.value
        if self.goal == "batch":
            return -math.inf if estimate.largest_batch is None else estimate.largest_batch
        return -math.inf if estimate.saving is None else estimate.saving.value


def judge_fit(estimate: VariantEstimate, limit: float | None) -> bool | None:
    """True if an estimate fits a limit; None without one, or where its memory is not known."""
    return None if limit is None or estimate.needed is None else check_fit(estimate.needed, limit)
