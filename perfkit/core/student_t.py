"""Student's t distribution, by the continued fraction of the incomplete beta function.

SciPy has the same, in 140 MB that nothing else of an analysis needs; the tests hold this against it.
"""

import math
from functools import lru_cache
from statistics import NormalDist

# Of the continued fraction and of Newton's method, which take ten to a hundred for up to 10,000 degrees of freedom.
_MOST_ROUNDS = 10_000
_CLOSE = 1e-16
_TINY = 1e-300


def compute_t_probability(freedom: float, value: float) -> float:
    """The probability of at most `value`, for `freedom` degrees of freedom, which need not be a whole number."""
    tail = _compute_tail(freedom, abs(value))
    return 1 - tail if value > 0 else tail


@lru_cache(maxsize=4096)
def compute_t_quantile(probability: float, freedom: float) -> float:
    """The value that is exceeded with 1 - `probability`, for `freedom` degrees of freedom."""
    tail = min(probability, 1 - probability)
    if tail <= 0:
        return math.copysign(math.inf, probability - 0.5)
    # The tail is convex and heavier than the normal distribution's: from there Newton's steps never go too far.
    reach = -NormalDist().inv_cdf(tail)
    for _ in range(_MOST_ROUNDS):
        step = (_compute_tail(freedom, reach) - tail) / _compute_density(freedom, reach)
        reach += step
        if step <= 4 * _CLOSE * reach:  # below 0 where only rounding is left
            break
    return math.copysign(reach, probability - 0.5)


def _compute_tail(freedom: float, reach: float) -> float:
    """The probability of more than `reach`, which is at least 0."""
    square = reach * reach
    if math.isinf(square):
        return 0.0
    inner, outer = square / (freedom + square), freedom / (freedom + square)
    if square < 3:  # each of the two fractions converges fast on its own side
        return 0.5 - _compute_beta_ratio(0.5, freedom / 2, inner, outer) / 2
    return _compute_beta_ratio(freedom / 2, 0.5, outer, inner) / 2


def _compute_density(freedom: float, value: float) -> float:
    scale = _compute_log_gamma_ratio(freedom / 2) - math.log(freedom * math.pi) / 2
    return math.exp(scale - (freedom + 1) / 2 * math.log1p(value * value / freedom))


def _compute_log_gamma_ratio(a: float) -> float:
    """The log of gamma(a + 1/2) / gamma(a)."""
    if a < 50:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    # The difference of two large logs would lose digits: Stirling's series.
    return math.log(a) / 2 - 1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5) + 17 / (14336 * a**7)


def _compute_beta_ratio(a: float, b: float, x: float, rest: float) -> float:
    """The regularized incomplete beta function I_x(a, b), where a or b is 1/2 and `rest` is 1 - x.

    DLMF 8.17.22, summed as by Lentz.
    """
    if x == 0:
        return 0.0
    log_x = math.log(x) if x < rest else math.log1p(-rest)
    log_rest = math.log(rest) if rest < x else math.log1p(-x)
    log = _compute_log_gamma_ratio(a if b == 0.5 else b) - math.log(math.pi) / 2 + a * log_x + b * log_rest
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or _TINY)
    fraction = d
    for m in range(1, _MOST_ROUNDS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / ((1 + term * d) or _TINY)
            c = (1 + term / c) or _TINY
            fraction *= c * d
        if abs(c * d - 1) <= _CLOSE:
            break
    return math.exp(log) * fraction / a
