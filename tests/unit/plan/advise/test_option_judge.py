"""What is better by which goal."""

import pytest

from perfkit.analysis.model.plan import Interval
from perfkit.plan.advise.advice import Goal, TimeSaving
from perfkit.plan.advise.estimates import VariantEstimate
from perfkit.plan.advise.option_judge import Judge, Worth


def estimate(saves: float | None = None, peak: float | None = None, batch: int | None = None) -> VariantEstimate:
    saving = (
        None if saves is None else TimeSaving(value=saves, low=saves, high=saves, bound="interval", basis="planned")
    )
    held = None if peak is None else Interval(value=peak, low=peak, high=peak)
    return VariantEstimate(saving, held, batch)


def judge(goal: Goal, limit: float | None = None) -> Judge:
    return Judge(goal, limit, Worth(1.0, 1.0))


@pytest.mark.parametrize(
    ("goal", "better", "worse"),
    [
        ("time", estimate(saves=3), estimate(saves=1)),
        ("cost", estimate(saves=3), estimate()),
        ("memory", estimate(peak=50), estimate(saves=9, peak=60)),
        ("batch", estimate(batch=9), estimate(batch=7)),
    ],
)
def test_a_goal_decides(goal: Goal, better: VariantEstimate, worse: VariantEstimate) -> None:
    assert judge(goal).is_better(better, worse)
    assert not judge(goal).is_better(worse, better)
    assert sorted((worse, better), key=judge(goal).order) == [better, worse]


def test_what_fits_comes_before_what_is_faster() -> None:
    fits, fast = estimate(saves=-3, peak=90), estimate(saves=5, peak=120)
    assert judge("time", 100).is_better(fits, fast)
    assert judge("time").is_better(fast, fits)


def test_what_may_take_any_memory_comes_after_what_fits_and_is_no_better() -> None:
    fits, lacks, unknown = estimate(saves=-3, peak=90), estimate(saves=1, peak=120), estimate(saves=5)
    limited = judge("time", 100)
    assert sorted((unknown, lacks, fits), key=limited.order) == [fits, lacks, unknown]
    assert not limited.is_better(unknown, lacks)
    assert limited.is_better(unknown, estimate(saves=3))
    assert judge("time").is_better(unknown, fits)


def test_a_difference_that_does_not_count_is_none() -> None:
    assert not judge("time").is_better(estimate(saves=1.5), estimate(saves=1.0))
