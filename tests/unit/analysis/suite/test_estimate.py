import math

import pytest

from perfkit.analysis.suite.estimate import estimate_over_processes


def test_the_interval_is_students_on_the_logarithms() -> None:
    # logs 0, ln 2, ln 4: mean ln 2, standard deviation ln 2; t(0.975, 2 degrees of freedom) = 4.302653
    result = estimate_over_processes([1.0, 2.0, 4.0], "s", "clock")
    half = 4.302653 * math.log(2) / math.sqrt(3)
    assert result.value == 2.0
    assert result.low == pytest.approx(2 * math.exp(-half), rel=1e-6)
    assert result.high == pytest.approx(2 * math.exp(half), rel=1e-6)
    assert result.per_process == (1.0, 2.0, 4.0)


def test_one_process_has_no_interval() -> None:
    result = estimate_over_processes([0.5], "s", "clock")
    assert (result.value, result.low, result.high) == (0.5, None, None)


def test_equal_processes_have_an_interval_of_no_width() -> None:
    result = estimate_over_processes([0.25, 0.25, 0.25], "s", "clock")
    assert result.low == pytest.approx(0.25)
    assert result.high == pytest.approx(0.25)


def test_the_interval_contains_the_median_of_very_skewed_figures() -> None:
    result = estimate_over_processes([1.0] * 30 + [1e9], "s", "clock")
    assert result.low is not None
    assert result.high is not None
    assert result.low <= result.value == 1.0 <= result.high
