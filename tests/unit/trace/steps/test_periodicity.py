import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.trace.steps.periodicity import find_period, find_repeats


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(3, 6), st.integers(0, 11))
def test_the_smallest_period_of_a_repeated_sequence(unit: list[int], times: int, more: int) -> None:
    whole = unit * times + unit[: more % len(unit)]
    expected = next(p for p in range(1, len(unit) + 1) if whole[p:] == whole[:-p])
    assert find_period(np.asarray(whole)) == expected


@given(st.lists(st.integers(0, 2), max_size=30))
def test_what_is_found_is_a_period(sequence: list[int]) -> None:
    found = find_period(np.asarray(sequence, np.int64))
    brute = (p for p in range(1, len(sequence) // 3 + 1) if sequence[p:] == sequence[:-p])
    assert found == next(brute, None)


@pytest.mark.parametrize("sequence", ["abcabcab", "eababababh", "abcd"])
def test_layers_between_other_work_are_no_steps(sequence: str) -> None:
    assert find_period(np.frombuffer(sequence.encode(), np.uint8)) is None


def test_repeats_in_time() -> None:
    found = find_repeats(np.asarray([1, 2, 1, 2, 1, 2, 1]), np.arange(0, 70, 10), 99)
    assert found is not None
    starts, ends, length = found
    assert (starts.tolist(), ends.tolist(), length) == ([0, 20, 40], [20, 40, 60], 2)
    whole = find_repeats(np.asarray([1, 2, 1, 2, 1, 2]), np.arange(0, 60, 10), 99)
    assert whole[1].tolist() == [20, 40, 99]
