"""Whether a suite answers what it was asked."""

import msgspec
import pytest

from perfkit.analysis.model.estimate import Difference, MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.suite.conclusion import find_conclusion
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import WorkloadSpec
from perfkit.store.layout import MeasurementSession, Suite, SuiteSampling
from perfkit.store.request import BenchRequest
from perfkit.store.suite_state import Conclusion, SuiteState, get_ended_state
from perfkit.store.summary import VariantOutcome
from tests.fixtures import sample_analysis


def suite(sampling: SuiteSampling | None, *, rounds: int | None = None) -> Suite:
    request = BenchRequest(
        workload=WorkloadSpec(name="gpt"), variants=(), device="cpu", device_count=0, cores=2, rounds=rounds
    )
    session = MeasurementSession(created_at="", command="", request=request, sampling=sampling)
    return Suite(created_at="", perfkit="", command="", variants=(), baselines={}, sessions=(session,))


@pytest.fixture(scope="module")
def pair() -> tuple[Variant, Variant]:
    variants = sample_analysis.realistic().variants
    baseline = next(each for each in variants if each.is_baseline)
    other = next(each for each in variants if each.difference is not None and each.difference.verdict == "faster")
    return baseline, other


DONE = SuiteSampling(precision=0.05, rounds=4, end_reason="every interval is within 5 %")


def with_verdict(variant: Variant, verdict: str) -> Variant:
    assert isinstance(variant.difference, Difference)
    return msgspec.structs.replace(variant, difference=msgspec.structs.replace(variant.difference, verdict=verdict))


def test_rounds_that_did_not_end_by_themselves_were_interrupted(pair: tuple[Variant, Variant]) -> None:
    for sampling in (None, SuiteSampling(precision=0.05, rounds=1)):
        assert find_conclusion(suite(sampling), pair) == Conclusion.INTERRUPTED
    assert find_conclusion(suite(None, rounds=0), pair) == Conclusion.COMPLETE
    assert find_conclusion(suite(DONE), pair) == Conclusion.COMPLETE


def test_a_variant_that_was_not_run_was_interrupted(pair: tuple[Variant, Variant]) -> None:
    baseline, other = pair
    stopped = msgspec.structs.replace(other, status=RunStatus.INTERRUPTED)
    assert find_conclusion(suite(DONE), (baseline, stopped)) == Conclusion.INTERRUPTED


def test_a_baseline_alone_of_several_variants_answers_nothing(pair: tuple[Variant, Variant]) -> None:
    baseline, other = pair
    skipped = msgspec.structs.replace(
        other, status=RunStatus.SKIPPED, step_time=MissingEstimate(reason="no liger"), difference=None
    )
    assert find_conclusion(suite(DONE), (baseline, skipped)) == Conclusion.EMPTY
    assert find_conclusion(suite(DONE), (baseline,)) == Conclusion.COMPLETE
    assert isinstance(baseline.step_time, MedianEstimate)


def test_comparisons_without_any_verdict_are_undecided(pair: tuple[Variant, Variant]) -> None:
    baseline, other = pair
    unsure = with_verdict(other, "inconclusive")
    assert find_conclusion(suite(DONE), (baseline, unsure)) == Conclusion.UNDECIDED
    assert find_conclusion(suite(DONE), (baseline, unsure, other)) == Conclusion.COMPLETE


@pytest.mark.parametrize("conclusion", list(Conclusion))
def test_a_list_of_runs_shows_it_where_no_run_failed(conclusion: Conclusion) -> None:
    fine = (VariantOutcome(variant="a", status=RunStatus.OK),)
    failed = (*fine, VariantOutcome(variant="b", status=RunStatus.CRASHED))
    assert get_ended_state(fine, conclusion)[0] == (conclusion or SuiteState.OK)
    assert get_ended_state(failed, conclusion)[0] == SuiteState.FAILED
