import math

import numpy as np
import pytest

from perfkit.check.judge.detectable_change import BUDGETS_S, COMPARISONS, calibrate_from_pairs, compute_smallest_change
from perfkit.check.judge.looks import ALPHA
from perfkit.core.errors import PerfkitError
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.student_t import compute_t_quantile
from perfkit.store.pairs import LOCK_STEP, Pair
from tests.fixtures.paired_series import pair

MARGINS = {"cpu_time": 0.03, "step_time": 0.05}


def _pairs(count: int, between: float = 0.03) -> list[Pair]:
    rng = np.random.default_rng(2)
    return [pair(rng, between=between, steps=11) for _ in range(count)]


def test_a_budget_buys_pairs_and_pairs_precision() -> None:
    calibration = calibrate_from_pairs(_pairs(20), LOCK_STEP, MARGINS)
    assert [row.budget_s for row in calibration.rows] == list(BUDGETS_S)
    assert [row.pairs for row in calibration.rows] == [14, 44, 74, 150, 450]
    for name in MARGINS:
        told = [row.detectable[name] or math.inf for row in calibration.rows]
        assert told == sorted(told, reverse=True)
        assert told[0] > 2 * told[-1]


def test_what_is_told_follows_from_the_spread_between_pairs() -> None:
    calibration = calibrate_from_pairs(_pairs(20), LOCK_STEP, {"cpu_time": 0.03})
    (noise,) = calibration.noise
    assert noise.spread == pytest.approx(0.03, rel=0.5)
    assert noise.low < 0 < noise.high
    row = calibration.rows[0]
    expected = (compute_t_quantile(1 - 0.75 * ALPHA, 13) + compute_t_quantile(0.95, 13)) * noise.spread / math.sqrt(14)
    assert row.detectable["cpu_time"] == pytest.approx(math.expm1(expected))


def test_identical_sides_hardly_ever_fail_in_any_order() -> None:
    calibration = calibrate_from_pairs(_pairs(20), LOCK_STEP, MARGINS)
    assert calibration.comparisons == COMPARISONS
    assert sum(noise.false_alarms for noise in calibration.noise) <= COMPARISONS * 0.02


def test_two_pairs_are_needed_for_any_figure() -> None:
    assert compute_smallest_change(0.03, 1, 0.01) is None
    assert compute_smallest_change(0.03, 2, 0.01) is not None


def test_quantities_without_steps_are_left_out_and_too_few_pairs_refused() -> None:
    wall_only = [
        Pair(
            before=StepSamples(wall_s=each.before.wall_s),
            after=StepSamples(wall_s=each.after.wall_s),
            seconds=each.seconds,
        )
        for each in _pairs(6)
    ]
    assert [noise.quantity for noise in calibrate_from_pairs(wall_only, LOCK_STEP, MARGINS).noise] == ["step_time"]
    with pytest.raises(PerfkitError, match="needs 4 pairs; found 3"):
        calibrate_from_pairs(_pairs(3), LOCK_STEP, MARGINS)
