"""How often `perfkit check` is wrong on recorded step times: the same comparisons each time, nothing is measured."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.check_quality import BUDGET_S, GATES, drawn, judged, spread_of
from benchmarks.check_series import Recorded, read_series
from perfkit.check.judge.looks import looks_for
from perfkit.check.result import Verdict

COMPARISONS = 400


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return read_series(Path(__file__).parents[2] / "fixtures" / "check_series.parquet")


def failing(recorded: Recorded, kind: str, gate: str) -> float:
    """The share of comparisons that fail, of as many pairs each as three minutes allow."""
    pairs = getattr(recorded, kind)
    rng = np.random.default_rng(1)
    most = looks_for(BUDGET_S, float(np.median([pair.seconds for pair in pairs]))).maximum
    verdicts = [judged(drawn(rng, pairs, most, swap=kind == "same"), GATES[gate])[1] for _ in range(COMPARISONS)]
    return verdicts.count(Verdict.FAIL) / COMPARISONS


@pytest.mark.parametrize("gate", GATES)
def test_equal_sides_fail_in_one_of_a_hundred_at_most(recorded: Recorded, gate: str) -> None:
    assert failing(recorded, "same", gate) <= 0.01


def test_three_per_cent_more_cpu_time_are_found_within_three_minutes(recorded: Recorded) -> None:
    assert failing(recorded, "slower", "perfkit, CPU time 3 %") >= 0.95


def test_the_extra_work_is_three_per_cent(recorded: Recorded) -> None:
    found = spread_of("extra work", recorded.slower, "cpu_time")
    assert abs(found.change - 0.03) < 3 * found.error
    assert spread_of("none", recorded.same, "cpu_time").change < 3 * found.error


def test_a_series_is_whole(recorded: Recorded) -> None:
    assert len(recorded.same) == len(recorded.slower) >= 100
    for pair in (*recorded.same, *recorded.slower):
        assert len(pair.before.cpu_s) == len(pair.after.cpu_s) == len(pair.before.wall_s) >= 10
