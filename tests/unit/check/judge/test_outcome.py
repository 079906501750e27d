"""A side that does not train to the end."""

import msgspec
import pytest

from perfkit.analysis.model.suite import Variant
from perfkit.check.judge.judge import combine_verdicts
from perfkit.check.judge.outcome import judge_failure, judge_outcome
from perfkit.check.judge.result import Verdict
from perfkit.core.record.rank_record import RunStatus
from tests.fixtures.sample_analysis import realistic

FINE = realistic().variants[0]
DEAD = msgspec.structs.replace(FINE, status=RunStatus.OUT_OF_MEMORY, reason="at step 3")
SKIPPED = msgspec.structs.replace(FINE, status=RunStatus.SKIPPED, reason="needs a GPU")


@pytest.mark.parametrize(
    ("before", "after", "verdict", "sides", "reason"),
    [
        (FINE, DEAD, Verdict.FAIL, "after", "at step 3"),
        (DEAD, FINE, Verdict.IMPROVED, "before", "at step 3"),
        (DEAD, DEAD, Verdict.FAIL, "both sides", "at step 3"),
        (SKIPPED, SKIPPED, Verdict.NOT_COMPARED, "both sides", "needs a GPU"),
        (FINE, SKIPPED, Verdict.FAIL, "after", "needs a GPU"),
    ],
)
def test_a_side_that_does_not_train(before: Variant, after: Variant, verdict: Verdict, sides: str, reason: str) -> None:
    (judged,) = judge_outcome(before, after)
    told_of, *_, cause = judged.reason.split(": ")
    assert (judged.verdict, told_of, cause) == (verdict, sides, reason)
    assert combine_verdicts([judged]) is verdict


def test_nothing_is_said_where_both_train_or_nobody_knows() -> None:
    assert judge_outcome(FINE, FINE) == judge_outcome(None, DEAD) == judge_outcome(DEAD, None) == ()


def test_a_side_that_fails_while_it_is_timed() -> None:
    assert combine_verdicts([judge_failure("it crashed", is_after=True)]) is Verdict.FAIL
    assert combine_verdicts([judge_failure("it crashed", is_after=False)]) is Verdict.NOT_COMPARED
