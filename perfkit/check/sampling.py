"""Pairs of processes of one variant, measured until they have told enough: looks are planned by what a pair takes."""

from dataclasses import dataclass, field

from perfkit.check.judge.looks import LookPlan, plan_looks_for_budget
from perfkit.check.judge.process_pairs import Gate, judge_pairs
from perfkit.check.judge.sequential_tests import is_settled
from perfkit.store.pairs import Pairs
from perfkit.units import format_seconds

# However much time there is: beyond it each pair narrows an interval by less than a thousandth of its width.
MOST_PAIRS = 500


@dataclass
class PairSampling:
    """When to stop. `plan` is made after the first pair, from the time that it took, and does not change."""

    gates: tuple[Gate, ...]
    budget_s: float
    family: int
    plan: LookPlan | None = field(default=None, init=False)

    def find_stop_reason(self, pairs: Pairs) -> str:
        """Why no more pairs are needed, "" where they are; asked after each of them."""
        count = len(pairs.pairs)
        if self.plan is None:
            self.plan = plan_looks_for_budget(self.budget_s, pairs.pairs[0].seconds)
        if count in self.plan.looks:
            judged = judge_pairs(pairs.pairs, pairs.pairing, self.gates, self.plan, family=self.family)
            if is_settled((judgement.verdict, judgement.is_decided) for judgement in judged):
                return "all checks are decided"
        if count >= self.plan.maximum:
            first_s = pairs.pairs[0].seconds
            return f"no more fit into {format_seconds(self.budget_s)}, since the first took {format_seconds(first_s)}"
        return ""

    def plan_at(self, pairs: Pairs) -> LookPlan | None:
        """The plan for the last look: where the budget ended before the last one, this is the last."""
        if self.plan is None or not pairs.pairs:
            return None
        return self.plan if len(pairs.pairs) in self.plan.looks else self.plan.end_at(len(pairs.pairs))
