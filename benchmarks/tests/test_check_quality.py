"""How often `perfkit check` is wrong on recorded step times: the same comparisons each time, nothing is measured."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.check_quality import BUDGET_S, DEFAULT, GATES, caught, drawn, judged, spread_of
from benchmarks.check_series import Recorded, read_series
from perfkit.check.judge.check_thresholds import get_default_thresholds
from perfkit.check.judge.looks import plan_looks_for_budget
from perfkit.check.judge.result import Verdict

COMPARISONS = 400


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return read_series(Path(__file__).parents[2] / "tests" / "fixtures" / "check_series.parquet")


def told(recorded: Recorded, kind: str, gate: str) -> list[set[Verdict]]:
    """The verdicts of comparisons, of as many pairs each as three minutes allow."""
    pairs = getattr(recorded, kind)
    rng = np.random.default_rng(1)
    most = plan_looks_for_budget(BUDGET_S, float(np.median([pair.seconds for pair in pairs]))).maximum
    return [judged(drawn(rng, pairs, most, swap=kind == "same"), GATES[gate])[1] for _ in range(COMPARISONS)]


@pytest.mark.parametrize("gate", GATES)
def test_equal_sides_fail_in_less_than_one_of_a_hundred_and_are_worse_in_one(recorded: Recorded, gate: str) -> None:
    verdicts = told(recorded, "same", gate)
    assert sum(Verdict.FAIL in each for each in verdicts) < 0.01 * COMPARISONS
    # What a true rate of 1 % exceeds in one of a hundred such tests.
    assert sum(map(caught, verdicts)) <= binom.ppf(0.99, COMPARISONS, 0.01)


@pytest.mark.parametrize("gate", ["perfkit, CPU time 3 %", DEFAULT])
def test_three_per_cent_more_work_are_caught_within_three_minutes(recorded: Recorded, gate: str) -> None:
    assert sum(map(caught, told(recorded, "slower", gate))) >= 0.95 * COMPARISONS


def test_the_default_is_the_default() -> None:
    thresholds = get_default_thresholds()
    assert {name: threshold.relative for name, threshold in thresholds.items() if name in GATES[DEFAULT]} == GATES[
        DEFAULT
    ]


def test_the_extra_work_is_three_per_cent(recorded: Recorded) -> None:
    found = spread_of("extra work", recorded.slower, "cpu_time")
    assert abs(found.change - 0.03) < 3 * found.error
    assert spread_of("none", recorded.same, "cpu_time").change < 3 * found.error


def test_a_series_is_whole(recorded: Recorded) -> None:
    assert len(recorded.same) == len(recorded.slower) >= 100
    for pair in (*recorded.same, *recorded.slower):
        assert len(pair.before.cpu_s) == len(pair.after.cpu_s) == len(pair.before.wall_s) >= 10
