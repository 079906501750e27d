"""Student's t against SciPy's."""

import math

import pytest
from scipy.special import stdtr, stdtrit

from perfkit.core.student_t import compute_t_probability, compute_t_quantile

FREEDOMS = (1, 1.5, 2, 2.0001, 3, 4.7, 12, 29, 99.9, 100, 999, 1e4)
VALUES = (-1e6, -40, -12, -5, -2.1, -math.sqrt(3), -1.7, -1, -0.3, -1e-3, 0, 1e-7, 0.4, 1.8, 2.5, 60)
PROBABILITIES = (1e-9, 1e-4, 0.005, 0.0125, 0.025, 0.3, 0.49, 0.5, 0.51, 0.95, 0.975, 0.9875, 0.99, 1 - 1e-6)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_probabilities_are_scipys(freedom: float) -> None:
    found = [compute_t_probability(freedom, value) for value in VALUES]
    assert found == pytest.approx([stdtr(freedom, value) for value in VALUES], rel=1e-10, abs=1e-290)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_quantiles_are_scipys(freedom: float) -> None:
    found = [compute_t_quantile(probability, freedom) for probability in PROBABILITIES]
    assert found == pytest.approx([stdtrit(freedom, probability) for probability in PROBABILITIES], rel=1e-10)


def test_the_ends_are_infinite() -> None:
    assert (compute_t_quantile(0, 3), compute_t_quantile(1, 3)) == (-math.inf, math.inf)
    assert (compute_t_probability(3, -math.inf), compute_t_probability(3, math.inf)) == (0, 1)
