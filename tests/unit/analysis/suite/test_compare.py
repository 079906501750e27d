import math

import pytest

from perfkit.analysis.suite.compare import compare


def test_ratio_interval_and_detectable_change_by_hand() -> None:
    # ratios 0.5 and 0.5 * 1.1: logs differ by ln 1.1, s = ln 1.1 / sqrt 2, s / sqrt n = ln 1.1 / 2
    result = compare("baseline", {0: 1.0, 1: 1.0}, {0: 0.5, 1: 0.55})
    assert result.ratio == pytest.approx(0.5 * math.sqrt(1.1))
    half = 12.706205 * math.log(1.1) / 2
    assert result.low == pytest.approx(result.ratio * math.exp(-half), rel=1e-6)
    assert result.high == pytest.approx(result.ratio * math.exp(half), rel=1e-6)
    assert result.detectable == pytest.approx(math.exp((12.706205 + 1.376382) * math.log(1.1) / 2) - 1, rel=1e-6)
    assert (result.verdict, result.pairs) == ("faster", 2)


def test_pairs_are_made_by_repeat_so_that_common_drift_cancels() -> None:
    result = compare("baseline", {0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.1, 1: 2.2, 2: 4.4})
    assert result.ratio == pytest.approx(1.1)
    assert result.verdict == "slower"
    assert result.detectable == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((0.9, 0.9, 0.901), "faster"),
        ((1.1, 1.1, 1.101), "slower"),
        ((0.999, 1.0, 1.001), "no difference"),
        ((0.8, 1.0, 1.2), "inconclusive"),
        ((0.1,), "inconclusive"),
    ],
)
def test_verdicts(ratios: tuple[float, ...], verdict: str) -> None:
    result = compare("baseline", dict.fromkeys(range(len(ratios)), 1.0), dict(enumerate(ratios)))
    assert result.verdict == verdict


def test_one_pair_shows_its_ratio_but_no_interval() -> None:
    result = compare("baseline", {0: 1.0, 1: 9.0}, {0: 0.5})
    assert (result.ratio, result.low, result.high, result.detectable, result.pairs) == (0.5, None, None, None, 1)


def test_without_a_common_repeat_there_is_no_comparison() -> None:
    assert compare("baseline", {0: 1.0}, {1: 1.0}) is None
