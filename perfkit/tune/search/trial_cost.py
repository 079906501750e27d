"""Estimates what a trial takes, from the runs of a search so far."""

from statistics import fmean
from typing import NamedTuple

from perfkit.store.suite_reader import StoredSuite

# A variant's first run takes about this many times as long as the baseline's: techniques are applied, some compile.
_FIRST_RUN_FACTOR = 1.5
# Rounds of a stage on average: of what is no gain two, of what is hard to decide more.
_ROUNDS = 3


class TrialCost(NamedTuple):
    """The mean seconds of a variant's first run, with its instruments, and of its process in a round."""

    first_s: float
    round_s: float

    def count_trials(self, budget_s: float, anchors: int) -> int:
        """Count the candidates that a budget is enough for, with `anchors` more variants in each round."""
        left_s = budget_s - _ROUNDS * anchors * self.round_s
        return max(0, int(left_s / (_FIRST_RUN_FACTOR * self.first_s + _ROUNDS * self.round_s)))

    def estimate_proof_s(self, variants: int) -> float:
        """Estimate the time of new first runs of so many variants and the baseline, and of a few rounds."""
        return (variants + 1) * (self.first_s + _ROUNDS * self.round_s)

    def is_one_affordable(self, left_s: float) -> bool:
        """True if there is time for one more candidate and a round of it."""
        return left_s > 2 * _FIRST_RUN_FACTOR * self.first_s


def compute_trial_cost(stored: StoredSuite) -> TrialCost:
    """Compute it from a suite's runs, of the baseline too. Before there was a round, one is taken to last as long as a
    first run."""
    first_s = fmean(run.run.seconds for run in stored.runs if run.spec.passes and run.run.seconds)
    rounds = [run.run for run in stored.runs if not run.spec.passes and run.run.seconds]
    shares = [run.seconds / max(1, len(run.interleaved_variants)) for run in rounds if run.seconds]
    return TrialCost(first_s, fmean(shares) if shares else first_s)
