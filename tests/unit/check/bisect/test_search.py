"""The binary search by itself."""

import math

from hypothesis import given
from hypothesis import strategies as st

from perfkit.check.bisect.search import Bounds, Outcome, choose_next, find_bounds


def search(count, first_bad, unknown=()):
    """The bounds found, and the number of candidates tested."""
    outcomes = {count - 1: Outcome.BAD}
    while (index := choose_next(find_bounds(count, outcomes), outcomes)) is not None:
        told = Outcome.BAD if index >= first_bad else Outcome.GOOD
        outcomes[index] = Outcome.UNKNOWN if index in unknown else told
    return find_bounds(count, outcomes), len(outcomes)


@given(st.integers(2, 300).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count - 1))))
def test_any_first_bad_one_is_found_in_as_few_tests_as_possible(drawn):
    count, first_bad = drawn
    bounds, tests = search(count, first_bad)
    assert bounds == Bounds(first_bad - 1, first_bad, ())
    assert tests <= math.ceil(math.log2(count - 1)) + 1


@given(
    st.integers(3, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1), st.sets(st.integers(1, n - 2))))
)
def test_what_cannot_be_told_is_never_guessed(drawn):
    count, first_bad, unknown = drawn
    bounds, _ = search(count, first_bad, unknown)
    assert bounds.last_good < first_bad <= bounds.first_bad
    assert set(range(bounds.last_good + 1, bounds.first_bad)) == set(bounds.unknown) <= unknown
