"""Plans looks at a growing number of pairs, and the share of the error level of each look.

Testing at 1 % after every pair and stopping at the first alarm gives far more than 1 % false alarms (Armitage,
McPherson and Rowe, J. R. Statist. Soc. A 132 (1969), 235-244). So looks are planned and share the level: the last look
has three quarters, earlier looks share the rest. By Bonferroni's inequality this holds for any distribution and any
dependence between looks, and Student's t stays exact for few pairs.
docs/check-statistics.md has the comparison with spending functions (Lan and DeMets, Biometrika 70 (1983), 659-663).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

ALPHA = 0.01
# A worsening near the threshold is sampled to the end; earlier looks only save time.
LAST_SHARE = 0.75

# With fewer pairs, Student's t at a fraction of 1 % is too wide to decide.
FIRST_LOOK = 6
GROWTH = 1.5
# Looks this close to the last one would waste their share.
NEAR_LAST = 0.8


@dataclass(frozen=True)
class LookPlan:
    """Ascending numbers of pairs at which to look, and each look's share of the level."""

    looks: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def maximum(self) -> int:
        return self.looks[-1]

    def look_at(self, pairs: int) -> int:
        """The last look reached with this many pairs; 0 before the first."""
        return max((look for look in self.looks if look <= pairs), default=0)

    def get_alpha(self, look: int) -> float:
        """The one-sided level of this look."""
        return ALPHA * self.shares[self.looks.index(look)]

    @property
    def last_alpha(self) -> float:
        return ALPHA * self.shares[-1]

    def end_at(self, pairs: int) -> "LookPlan":
        """The plan if sampling ends here: this look gets all unspent level.

        Valid only if the end does not depend on the ratios, as with a time limit.
        """
        if pairs >= self.maximum:
            return self
        spent = [(look, share) for look, share in zip(self.looks, self.shares, strict=True) if look < pairs]
        unspent = 1.0 - sum(share for _, share in spent)
        return LookPlan(looks=(*(look for look, _ in spent), pairs), shares=(*(share for _, share in spent), unspent))


def plan_looks(looks: Sequence[int]) -> LookPlan:
    """A plan with these looks: three quarters of the level for the last one, equal parts for the others."""
    earlier = len(looks) - 1
    if not earlier:
        return LookPlan(looks=tuple(looks), shares=(1.0,))
    return LookPlan(looks=tuple(looks), shares=(*((1 - LAST_SHARE) / earlier,) * earlier, LAST_SHARE))


def plan_looks_for_budget(budget_s: float, pair_s: float) -> LookPlan:
    """The looks within a budget if a pair takes `pair_s`: 6, 10, 16, 24, ... and the last.

    Numbers are even, so each side comes first equally often. A budget below one pair gives a plan of one.
    """
    return plan_looks(list_looks(max(1, int(budget_s / pair_s))))


def list_looks(most: int) -> tuple[int, ...]:
    """The looks within this many pairs."""
    if most < FIRST_LOOK:
        return (most,)
    last = most - most % 2
    looks, look = [], FIRST_LOOK
    while look < NEAR_LAST * last:
        looks.append(look)
        look = 2 * math.ceil(look * GROWTH / 2)
    return (*looks, last)
