"""Decides when a variant has enough process pairs: looks are planned from the time per pair."""

from dataclasses import dataclass, field

from perfkit.check.judge.looks import LookPlan, plan_looks_for_budget
from perfkit.check.judge.process_pairs import Gate, judge_pairs
from perfkit.check.judge.sequential_tests import is_settled
from perfkit.core.units import format_seconds
from perfkit.store.pairs import Pairs

# Limit for any budget: more pairs narrow an interval by less than 0.1 % each.
MOST_PAIRS = 500


@dataclass
class PairSampling:
    """The stopping rule. `plan` is made after the first pair, from its duration, and does not change."""

    gates: tuple[Gate, ...]
    budget_s: float
    family: int
    plan: LookPlan | None = field(default=None, init=False)

    def find_stop_reason(self, pairs: Pairs) -> str:
        """Reason that no more pairs are needed, else ""; called after each pair."""
        count = len(pairs.pairs)
        if self.plan is None:
            self.plan = plan_looks_for_budget(self.budget_s, pairs.pairs[0].seconds)
        if count in self.plan.looks:
            judged = judge_pairs(pairs.pairs, pairs.pairing, self.gates, self.plan, family=self.family)
            if is_settled((judgement.verdict, judgement.is_decided) for judgement in judged):
                return "all checks are decided"
        if count >= self.plan.maximum:
            first_s = pairs.pairs[0].seconds
            return f"no more pairs fit into {format_seconds(self.budget_s)}: the first took {format_seconds(first_s)}"
        return ""

    def plan_at(self, pairs: Pairs) -> LookPlan | None:
        """The plan for the final look: if the budget ended early, this look is the last."""
        if self.plan is None or not pairs.pairs:
            return None
        return self.plan if len(pairs.pairs) in self.plan.looks else self.plan.end_at(len(pairs.pairs))
