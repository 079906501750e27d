"""When to look at a growing number of pairs, and how much of the error level each look may spend.

Who tests at 1 % after every pair and stops at the first alarm has far more than 1 % false alarms (Armitage, McPherson
and Rowe, J. R. Statist. Soc. A 132 (1969), 235-244). So the looks are planned, and the level is divided among them:
three quarters of it are kept for the last look, the looks before it share the rest. By Bonferroni's inequality the sum
holds whatever the distribution and however the looks depend on each other, and Student's t stays exact for few pairs.
docs/check-statistics.md has the comparison with spending functions (Lan and DeMets, Biometrika 70 (1983), 659-663).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

ALPHA = 0.01
# A worsening near the threshold is sampled to the end: there it is told, and earlier looks only save time.
LAST_SHARE = 0.75

# With fewer pairs than this Student's t at a fraction of 1 % is so wide that a look decides hardly anything.
FIRST_LOOK = 6
GROWTH = 1.5
# A look this close below the last one would spend its share for little.
NEAR_LAST = 0.8


@dataclass(frozen=True)
class LookPlan:
    """The numbers of pairs at which to look, ascending, and the share of the level that each look may spend."""

    looks: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def maximum(self) -> int:
        return self.looks[-1]

    def look_at(self, pairs: int) -> int:
        """The last look that so many pairs have reached; 0 before the first."""
        return max((look for look in self.looks if look <= pairs), default=0)

    def get_alpha(self, look: int) -> float:
        """The one-sided level that this look may spend."""
        return ALPHA * self.shares[self.looks.index(look)]

    @property
    def last_alpha(self) -> float:
        return ALPHA * self.shares[-1]

    def end_at(self, pairs: int) -> "LookPlan":
        """The plan of a sampling that has to end here, with what earlier looks have not spent kept for this one.

        It is valid where the end has nothing to do with the ratios seen, as when the time is over.
        """
        if pairs >= self.maximum:
            return self
        spent = [(look, share) for look, share in zip(self.looks, self.shares, strict=True) if look < pairs]
        rest = 1.0 - sum(share for _, share in spent)
        return LookPlan(looks=(*(look for look, _ in spent), pairs), shares=(*(share for _, share in spent), rest))


def plan_looks(looks: Sequence[int]) -> LookPlan:
    """A plan with these looks: three quarters of the level for the last one, the rest in equal parts."""
    earlier = len(looks) - 1
    if not earlier:
        return LookPlan(looks=tuple(looks), shares=(1.0,))
    return LookPlan(looks=tuple(looks), shares=(*((1 - LAST_SHARE) / earlier,) * earlier, LAST_SHARE))


def plan_looks_for_budget(budget_s: float, pair_s: float) -> LookPlan:
    """The looks that a budget allows when a pair takes `pair_s`: 6, 10, 16, 24, ... and the last.

    Numbers are even, so that each side has come first equally often. A budget for less than a pair is a plan of one.
    """
    return plan_looks(list_looks(max(1, int(budget_s / pair_s))))


def list_looks(most: int) -> tuple[int, ...]:
    """The looks that at most so many pairs allow."""
    if most < FIRST_LOOK:
        return (most,)
    last = most - most % 2
    looks, look = [], FIRST_LOOK
    while look < NEAR_LAST * last:
        looks.append(look)
        look = 2 * math.ceil(look * GROWTH / 2)
    return (*looks, last)
