"""Options of a search that goes on."""

import pytest

from perfkit.check.bisect.result import BisectOptions
from perfkit.check.bisect.resumed_options import resume_options
from perfkit.core.errors import UsageError

BEGUN = BisectOptions(good="2.11", bad="2.14", package="torch", thresholds=("step_time=3%",), exact=True, threads=1)


def test_what_is_not_given_again_is_as_before() -> None:
    assert resume_options(BEGUN, BisectOptions()) == BEGUN
    assert resume_options(BEGUN, BisectOptions(good="2.11", thresholds=("step_time=3%",), exact=True)) == BEGUN


def test_the_budget_may_change() -> None:
    assert resume_options(BEGUN, BisectOptions(budget="10min")).budget == "10min"


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (BisectOptions(good="2.12"), "--good 2.12"),
        (BisectOptions(workload="gpt"), "--workload gpt"),
        (BisectOptions(thresholds=("cpu_time=3%",)), "--threshold cpu_time=3%"),
        (BisectOptions(threads=2), "--threads 2"),
    ],
)
def test_what_earlier_verdicts_do_not_answer_is_refused(given: BisectOptions, option: str) -> None:
    with pytest.raises(UsageError, match=option) as refused:
        resume_options(BEGUN, given)
    assert refused.value.id == "usage.conflict"


def test_exact_verdicts_answer_no_question_of_time() -> None:
    with pytest.raises(UsageError):
        resume_options(BisectOptions(good="v1"), BisectOptions(exact=True))
