"""When sampling stops: at looks, and where nothing is open any more."""

import numpy as np

from perfkit.check.judge.check_thresholds import parse_threshold
from perfkit.check.judge.judge import list_gates
from perfkit.check.judge.process_pairs import Gate
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.check.sampling import PairSampling
from perfkit.store.pairs import LOCK_STEP, Pairs
from tests.fixtures.figures import list_figures
from tests.fixtures.paired_series import pair

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


def gate(threshold: str) -> tuple[Gate, ...]:
    quantity = BY_NAME["cpu_time"]
    return (Gate(quantity=quantity, threshold=parse_threshold(threshold, "s", more_is_worse=True)),)


def stopped_after(sampling: PairSampling, slower: float, most: int = 60) -> tuple[int, Pairs]:
    """After how many pairs enough was known; `most` where it never was."""
    rng = np.random.default_rng(3)
    pairs = Pairs(variant="baseline", pairing=LOCK_STEP)
    for count in range(1, most + 1):
        pairs = Pairs(
            variant="baseline", pairing=LOCK_STEP, pairs=(*pairs.pairs, pair(rng, slower=slower, between=0.03))
        )
        if sampling.find_stop_reason(pairs):
            return count, pairs
    return most, pairs


def test_worse_is_measured_until_it_is_clear_on_which_side_of_the_threshold_it_is() -> None:
    sampling = PairSampling(gate("3%"), budget_s=400, family=1)
    count, _ = stopped_after(sampling, slower=1.03, most=100)
    assert count == sampling.plan.maximum
    sampling = PairSampling(gate("9%"), budget_s=400, family=1)
    count, pairs = stopped_after(sampling, slower=1.03, most=100)
    assert count < sampling.plan.maximum
    assert "decided" in sampling.find_stop_reason(pairs)


def test_a_large_change_is_told_at_the_first_look() -> None:
    sampling = PairSampling(gate("3%"), budget_s=400, family=1)
    count, pairs = stopped_after(sampling, slower=1.5)
    assert count == sampling.plan.looks[0]
    assert "decided" in sampling.find_stop_reason(pairs)


def test_what_stays_open_is_measured_to_the_last_look() -> None:
    sampling = PairSampling(gate("0.1%"), budget_s=200, family=1)
    count, pairs = stopped_after(sampling, slower=1.0)
    assert count == sampling.plan.maximum == 200 / pairs.pairs[0].seconds
    assert list_figures(sampling.find_stop_reason(pairs)) == ["3 min", "20 s", "4.00 s"]
    assert sampling.plan_at(pairs) == sampling.plan


def test_a_budget_that_ends_early_makes_its_last_pair_the_last_look() -> None:
    sampling = PairSampling(gate("0.1%"), budget_s=200, family=1)
    _, pairs = stopped_after(sampling, slower=1.0, most=17)
    plan = sampling.plan_at(pairs)
    assert (plan.maximum, round(sum(plan.shares), 9)) == (17, 1.0)


def test_without_pairs_there_is_no_plan() -> None:
    assert PairSampling(gate("3%"), 60, 1).plan_at(Pairs(variant="baseline", pairing=LOCK_STEP)) is None


def test_gates_without_thresholds_are_decided_at_the_first_look() -> None:
    from perfkit.check.judge.check_figures import RunFigures

    figures = RunFigures(processes={"step_time": (0.1,), "cpu_time": (0.1,)})
    sampling = PairSampling(list_gates(figures, figures, {}), budget_s=400, family=1)
    count, _ = stopped_after(sampling, slower=1.0)
    assert count == sampling.plan.looks[0]
