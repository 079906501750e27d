"""Levels of series that are simulated with fixed seeds."""

import math
import sys

import numpy as np
import pytest
import ruptures

from perfkit.check.history.change_points import FALSE, FEWEST, estimate_noise, find_levels
from perfkit.core.errors import UnavailableError


def noisy(counts_and_levels: list[tuple[int, float]], noise: float, seed: int) -> np.ndarray:
    means = np.concatenate([np.full(count, level) for count, level in counts_and_levels])
    return np.asarray(means + noise * np.random.default_rng(seed).standard_normal(len(means)))


def test_a_step_without_noise_is_found_where_it_is() -> None:
    found = find_levels([1.0] * 7 + [2.0] * 5)

    assert [step.at for step in found.steps] == [7]
    assert found.means == (1.0, 2.0)
    assert (found.steps[0].earliest, found.steps[0].latest) == (7, 7)


def test_three_per_cent_in_one_per_cent_of_noise_is_found() -> None:
    """Of 100 histories of 40 runs; the figures of many more are printed by benchmarks/check_history.py."""
    runs = [find_levels(noisy([(20, 0.0), (20, math.log(1.03))], 0.01, seed)).steps for seed in range(100)]

    near = [steps for steps in runs if len(steps) == 1 and abs(steps[0].at - 20) <= 1]
    covered = [steps for steps in runs if any(step.earliest <= 20 <= step.latest for step in steps)]
    assert len(near) >= 90
    assert len(covered) >= 95


def test_histories_without_a_change_seldom_show_one() -> None:
    false = sum(bool(find_levels(noisy([(40, 0.0)], 0.02, seed)).steps) for seed in range(300))

    assert false <= 300 * FALSE * 2


def test_far_off_runs_are_no_level() -> None:
    for place in (0, 10, 11, 19):
        values = noisy([(20, 0.0)], 0.01, 7)
        values[place] += 0.5
        assert find_levels(values).steps == ()


def test_without_ruptures_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(UnavailableError, match=r"'perfkit\[history\]'"):
        find_levels(noisy([(20, 1.0), (20, 1.1)], 0.01, seed=1))


def test_two_changes() -> None:
    found = find_levels(noisy([(15, 0.0), (15, 0.1), (15, 0.0)], 0.01, 1))

    assert [step.at for step in found.steps] == [15, 30]
    assert found.means == pytest.approx((0.0, 0.1, 0.0), abs=0.01)
    assert found.deviation == pytest.approx(0.01, rel=0.3)
    assert all(half is not None and half < 0.01 for half in found.half)


def test_the_search_is_pelt_over_squared_distances() -> None:
    values = noisy([(20, 0.0), (12, 2.0), (30, 0.5)], 1.0, 3)
    kernel = ruptures.KernelCPD(kernel="linear", min_size=FEWEST).fit(values).predict(pen=8.0)
    plain = ruptures.Pelt(model="l2", min_size=FEWEST, jump=1).fit(values).predict(pen=8.0)

    assert [int(end) for end in kernel] == plain


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [1.0, 1.0, 2.0, 2.0, 2.0], [3.0] * 30])
def test_too_few_runs_or_equal_ones_show_nothing(values: list[float]) -> None:
    found = find_levels(values)

    assert found.steps == ()
    assert len(found.means) == 1


def test_one_run_has_no_interval() -> None:
    assert find_levels([1.0]).half == (None,)
    assert find_levels([1.0]).deviation is None


def test_noise_of_runs_most_of_which_are_equal() -> None:
    assert estimate_noise(np.array([1.0] * 10 + [2.0] * 10)) > 0
    assert estimate_noise(np.array([1.0] * 10)) == 0


def test_runs_that_resemble_each_other_count_for_fewer() -> None:
    random = np.random.default_rng(0)
    alike = np.zeros(400)
    for place in range(1, 400):
        alike[place] = 0.5 * alike[place - 1] + random.standard_normal()

    assert find_levels(alike).inflation == pytest.approx(3.0, rel=0.35)  # (1 + 0.5) / (1 - 0.5)
    assert find_levels(random.standard_normal(400)).inflation < 1.4


def test_the_p_value_is_students_times_the_places() -> None:
    """Two levels of three runs: t with 4 degrees of freedom, by hand, at one place."""
    from scipy.stats import ttest_ind

    before, after = [0.0, 0.1, -0.1], [2.0, 2.1, 1.9]
    found = find_levels([*before, *after])

    assert found.inflation == 1.0  # the correlation of (0, 0.1, -0.1) is negative
    assert found.steps[0].p_value == pytest.approx(ttest_ind(before, after).pvalue, rel=1e-9)
    assert found.compute_half_width(0, (3, 3)) == pytest.approx(2.776445 * 0.1 * math.sqrt(2 / 3), rel=1e-6)
