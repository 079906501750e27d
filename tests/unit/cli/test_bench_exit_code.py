"""The exit code of a bench without an answer."""

import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.core.record.rank_record import RunStatus
from perfkit.store.layout import SuiteSampling
from perfkit.store.suite_state import Conclusion
from perfkit_cli.bench import _get_exit_code
from tests.fixtures import sample_analysis

ASKED = SuiteSampling(precision=0.03, budget_s=80.0, rounds=2)
ROUNDS = SuiteSampling(rounds=2)


def analysis(conclusion: Conclusion, sampling: SuiteSampling | None, status: RunStatus = RunStatus.OK) -> Analysis:
    (*before, last) = [each for each in sample_analysis.realistic().variants if each.status == RunStatus.OK]
    variants = (*before, msgspec.structs.replace(last, status=status))
    return msgspec.structs.replace(
        sample_analysis.realistic(), conclusion=conclusion, sampling=sampling, variants=variants
    )


@pytest.mark.parametrize(
    ("conclusion", "sampling", "code"),
    [
        (Conclusion.COMPLETE, ASKED, 0),
        (Conclusion.UNDECIDED, ASKED, 3),
        (Conclusion.UNDECIDED, ROUNDS, 0),
        (Conclusion.UNDECIDED, None, 0),
        (Conclusion.EMPTY, None, 3),
    ],
)
def test_no_answer_to_what_was_asked_is_no_success(
    conclusion: Conclusion, sampling: SuiteSampling | None, code: int
) -> None:
    assert _get_exit_code(analysis(conclusion, sampling)) == code


def test_a_failed_run_comes_first() -> None:
    assert _get_exit_code(analysis(Conclusion.EMPTY, None, RunStatus.CRASHED)) == 1
