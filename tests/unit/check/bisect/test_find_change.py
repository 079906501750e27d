"""The search with checks: ends first, then candidates; undecided ones are measured longer."""

import pytest

from perfkit.check.bisect.find_change import LONGER, classify_candidate, find_change, narrow_config, start_bisection
from perfkit.check.bisect.search import Outcome
from perfkit.check.judge.outcome import OUTCOME
from perfkit.check.judge.result import Verdict
from perfkit.core.errors import PerfkitError, UsageError
from tests.fixtures.sample_bisections import CANDIDATES, CONFIG, FakeChecks, judged


def search(checks, **options):
    states = []
    start = start_bisection("commits", CANDIDATES, "perfkit bisect")
    return find_change(start, CONFIG, checks, save=states.append, **options), states


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("first_bad", range(1, 9))
def test_the_first_bad_candidate_is_found_and_explained(first_bad, exact):
    checks = FakeChecks(first_bad, exact=exact)
    found, states = search(checks)
    assert found.is_found
    assert (found.last_good, found.first_bad) == (first_bad - 1, first_bad)
    assert found.causes == ("aten::softmax is new",)
    assert checks.asked[-1][:3] == (first_bad - 1, first_bad, False)
    assert len(found.steps) <= 4
    assert [len(state.steps) for state in states] == list(range(1, len(found.steps) + 1))
    assert {timed for *_, timed, _, _ in checks.asked[1:]} == ({False} if exact else {True, False})


def test_equal_ends_are_not_searched():
    checks = FakeChecks(first_bad=99)
    found, _ = search(checks)
    assert not found.is_found
    assert found.is_complete
    assert found.first_bad is None
    assert len(checks.asked) == 1


def test_an_undecided_candidate_is_measured_longer():
    unsure = judged(Verdict.INCONCLUSIVE, after=110.0)
    checks = FakeChecks(odd={4: [unsure, judged(Verdict.PASS, after=101.0)]})
    found, _ = search(checks)
    assert (found.last_good, found.first_bad) == (4, 5)
    assert [budget for _, after, _, budget, folder in checks.asked if after == 4 and folder != "why"] == [10.0, 20.0]


def test_what_stays_undecided_is_left_out():
    unsure = judged(Verdict.FAIL, after=110.0, decided=False)
    checks = FakeChecks(odd={4: unsure, 5: PerfkitError("cannot be installed")})
    found, _ = search(checks)
    assert not found.is_found
    assert (found.last_good, found.first_bad, found.unknown) == (3, 6, (4, 5))
    assert sum(after == 4 for _, after, *_ in checks.asked) == len(LONGER)
    assert next(step for step in found.steps if step.index == 5).reason == "cannot be installed"


def test_a_search_goes_on_where_it_ended():
    _, states = search(FakeChecks())
    checks = FakeChecks()
    found = find_change(states[1], CONFIG, checks)
    assert (found.last_good, found.first_bad) == (4, 5)
    assert len(checks.asked) == len(found.steps) - 2 + 1  # and the causes


def test_a_candidate_that_does_not_train_is_unknown_unless_that_is_searched():
    failed = judged(Verdict.FAIL, quantity=OUTCOME)
    found, _ = search(FakeChecks(odd={4: failed}))
    assert next(step for step in found.steps if step.index == 4).outcome is Outcome.UNKNOWN
    assert classify_candidate(failed, failed) is Outcome.BAD


def test_exact_values_are_compared_with_both_ends():
    ends = judged(Verdict.FAIL, after=200.0, exact=True)
    outcomes = [
        classify_candidate(judged(Verdict.FAIL, after=value, exact=True), ends) for value in (90, 149, 150, 300)
    ]
    assert outcomes == [Outcome.GOOD, Outcome.GOOD, Outcome.BAD, Outcome.BAD]


def test_only_half_of_the_difference_of_one_quantity_is_judged():
    start = start_bisection("commits", CANDIDATES, "")
    bisection = find_change(start, CONFIG, FakeChecks())
    narrow = narrow_config(CONFIG, bisection, judged(Verdict.FAIL, after=120.0))
    gated = {name: each for name, each in narrow.cases[0].resolve_thresholds().items() if each is not None}
    assert gated.keys() == {"step_time"}
    assert gated["step_time"].relative == pytest.approx(0.1)


def test_an_unknown_quantity_and_a_single_candidate_are_refused():
    with pytest.raises(UsageError):
        search(FakeChecks(), quantity="energy")
    with pytest.raises(UsageError):
        start_bisection("commits", CANDIDATES[:1], "")
