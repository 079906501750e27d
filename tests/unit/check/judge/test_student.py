import math

import pytest
from scipy import stats

from perfkit.check.judge.student import MeanEstimate, estimate_mean, estimate_mean_difference

VALUES = (0.011, -0.004, 0.023, 0.009, 0.031)
OTHERS = (0.05, 0.03, 0.04)


def test_the_p_value_is_that_of_scipys_t_test() -> None:
    mean = estimate_mean(VALUES)
    assert mean.compute_p_above(0) == pytest.approx(stats.ttest_1samp(VALUES, 0, alternative="greater").pvalue)
    assert mean.compute_p_below(0.02) == pytest.approx(stats.ttest_1samp(VALUES, 0.02, alternative="less").pvalue)


def test_the_difference_of_two_groups_is_welchs() -> None:
    mean = estimate_mean_difference(VALUES, OTHERS)
    expected = stats.ttest_ind(OTHERS, VALUES, equal_var=False, alternative="greater")
    assert mean.freedom == pytest.approx(expected.df)
    assert mean.compute_p_above(0) == pytest.approx(expected.pvalue)


def test_the_bound_is_where_the_p_value_is_the_level() -> None:
    mean = estimate_mean(VALUES)
    assert mean.compute_p_above(mean.value - mean.compute_reach(0.01)) == pytest.approx(0.01)


def test_one_value_says_nothing_and_no_level_reaches_everywhere() -> None:
    assert estimate_mean((1.0,)) is None
    assert estimate_mean_difference((1.0, 2.0), (1.0,)) is None
    assert MeanEstimate(value=0, error=1, freedom=3).compute_reach(0) == math.inf


def test_values_without_any_spread_are_certain() -> None:
    mean = estimate_mean((0.1, 0.1, 0.1))
    assert mean.compute_p_above(0) == pytest.approx(0)
    assert MeanEstimate(value=0, error=0, freedom=2).compute_p_above(0) == 0.5
    assert estimate_mean_difference((2.0, 2.0), (2.0, 2.0)) == MeanEstimate(value=0.0, error=0.0, freedom=2)
