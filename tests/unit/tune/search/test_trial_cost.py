"""What a trial takes."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfkit.tune.search.trial_cost import TrialCost, compute_trial_cost


def run(seconds: float, *, first: bool = False, together: int = 0) -> Any:
    return SimpleNamespace(
        spec=SimpleNamespace(passes=("trace",) if first else ()),
        run=SimpleNamespace(seconds=seconds, interleaved_variants=("v",) * together),
    )


def compute(*runs: Any) -> TrialCost:
    return compute_trial_cost(SimpleNamespace(runs=runs))  # type: ignore[arg-type]


def test_a_round_is_shared_by_its_variants() -> None:
    assert compute(run(8.0, first=True)) == TrialCost(8.0, 8.0)
    assert compute(run(8.0, first=True), run(12.0, first=True), run(30.0, together=6), run(7.0)) == TrialCost(10.0, 6.0)


@pytest.mark.parametrize(("budget_s", "anchors", "count"), [(15.0, 1, 0), (45.0, 1, 1), (105.0, 1, 3), (105.0, 2, 2)])
def test_a_budget_is_enough_for_first_runs_and_three_rounds(budget_s: float, anchors: int, count: int) -> None:
    assert TrialCost(10.0, 5.0).count_trials(budget_s, anchors) == count


def test_the_last_candidate_needs_a_first_run_and_a_round() -> None:
    assert [TrialCost(10.0, 5.0).is_one_affordable(left_s) for left_s in (30.0, 31.0)] == [False, True]


def test_a_proof_runs_everything_anew() -> None:
    assert TrialCost(10.0, 5.0).estimate_proof_s(2) == 3 * (10.0 + 3 * 5.0)
