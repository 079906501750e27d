import math

import numpy as np
import pytest

from perfkit.check.judge.student import MeanEstimate
from perfkit.check.judge.worsening import Worsening, convert_to_log_scale, count_samples_needed
from perfkit.core.student_t import compute_t_quantile


def _worsening(value: float, error: float, samples: int = 20, margin: float | None = 0.03) -> Worsening:
    return Worsening(
        mean=MeanEstimate(value=value, error=error, freedom=samples - 1),
        samples=samples,
        more_is_worse=True,
        margin=margin if margin is None else math.log1p(margin),
    )


def test_a_margin_is_a_log_ratio_in_the_direction_that_is_worse() -> None:
    assert convert_to_log_scale(0.03, more_is_worse=True) == pytest.approx(math.log(1.03))
    assert convert_to_log_scale(0.03, more_is_worse=False) == pytest.approx(-math.log(0.97))
    assert convert_to_log_scale(1.0, more_is_worse=False) == math.inf
    assert convert_to_log_scale(None, more_is_worse=True) is None


def test_a_rate_that_falls_is_worse() -> None:
    fallen = Worsening(mean=MeanEstimate(value=0.05, error=0.01, freedom=9), samples=10, more_is_worse=False)
    assert fallen.compute_change(fallen.mean.value) == pytest.approx(math.exp(-0.05) - 1)
    low, high = fallen.compute_interval(0.01) or (0, 0)
    assert low < fallen.compute_change(0.05) < high < 0


def test_what_is_detectable_is_found_with_95_percent() -> None:
    rng = np.random.default_rng(5)
    samples, spread, alpha = 20, 0.03, 0.005
    true = math.log1p(_worsening(0, spread / math.sqrt(samples)).compute_detectable(alpha))
    values = true + spread * rng.standard_normal((4000, samples))
    reach = compute_t_quantile(1 - alpha, samples - 1) * values.std(axis=1, ddof=1) / math.sqrt(samples)
    assert 0.93 < np.mean(values.mean(axis=1) > reach) < 0.97


@pytest.mark.parametrize(("spread", "difference"), [(0.03, 0.03), (0.1, 0.03), (0.001, 0.03), (0.05, 0.01)])
def test_so_many_samples_are_needed_and_no_fewer(spread: float, difference: float) -> None:
    needed = count_samples_needed(spread, difference, 0.005)
    assert needed is not None

    def smallest(n: int) -> float:
        return (compute_t_quantile(0.995, n - 1) + compute_t_quantile(0.95, n - 1)) * spread / math.sqrt(n)

    assert smallest(needed) <= difference
    assert needed == 2 or smallest(needed - 1) > difference


def test_too_many_samples_are_not_counted() -> None:
    assert count_samples_needed(1.0, 1e-4, 0.005) is None
    assert count_samples_needed(0.01, 0.0, 0.005) is None


def test_more_samples_are_needed_where_the_change_lies_between() -> None:
    clear = _worsening(0.0, 0.02 / math.sqrt(6), samples=6).count_samples_to_decide(0.005)
    between = _worsening(0.015, 0.02 / math.sqrt(40), samples=40).count_samples_to_decide(0.005)
    assert clear is not None
    assert between is not None
    assert between > 40 > clear
    assert _worsening(0.0, 0.01, margin=0.0).count_samples_to_decide(0.005) is None
