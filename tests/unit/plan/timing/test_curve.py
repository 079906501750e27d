"""Curves of measured over least time."""

from math import log, sqrt

import pytest

from perfkit.plan.timing.curve import SIZE, CurvePoint, EfficiencyCurve, average_by_size, fit_curve


def _point(least: float, taken: float, weight: float = 1.0) -> CurvePoint:
    return CurvePoint(log(least), log(taken), 0.0, weight)


def test_a_curve_is_straight_between_what_was_measured() -> None:
    curve = fit_curve([_point(1, 2), _point(100, 110)], None)
    assert curve.at(log(1)) == pytest.approx(log(2))
    assert curve.at(log(100)) == pytest.approx(log(110))
    assert curve.at(log(10)) == pytest.approx(log(sqrt(2 * 110)))


def test_beyond_its_ends_a_small_call_takes_what_the_smallest_took_and_a_large_one_is_as_efficient() -> None:
    curve = fit_curve([_point(1, 2), _point(100, 110)], None)
    assert curve.at(log(0.001)) == pytest.approx(log(2))
    assert curve.at(log(1000)) == pytest.approx(log(1100))


def test_beyond_its_ends_it_goes_on_as_the_curve_of_all() -> None:
    everything = fit_curve([_point(1, 10), _point(100, 200)], None)
    curve = fit_curve([_point(100, 100)], everything)
    assert curve.at(log(1)) == pytest.approx(log(100 * 10 / 200))
    assert curve.at(log(1000)) == pytest.approx(log(1000))


def test_what_large_calls_are_slower_by_fades_below_them() -> None:
    everything = fit_curve([_point(1, 1), _point(4**6, 4**6)], None)
    curve = fit_curve([_point(4**6, 8 * 4**6)], everything)
    assert curve.at(log(4**7)) == pytest.approx(log(8 * 4**7))
    assert curve.at(log(4**6) - 1.5 * SIZE) == pytest.approx(log(8) / 2 + log(4**6) - 1.5 * SIZE)
    assert curve.at(log(4)) == pytest.approx(log(4))


def test_what_tiny_calls_are_slower_by_tells_nothing_of_large_ones() -> None:
    everything = fit_curve([_point(1, 1), _point(4**6, 4**6)], None)
    curve = fit_curve([_point(4, 64)], everything)
    assert curve.at(log(4**4)) == pytest.approx(log(16 * 4**4))
    assert curve.at(log(4**4) + 1.5 * SIZE) == pytest.approx(log(16) / 2 + log(4**4) + 1.5 * SIZE)
    assert curve.at(log(4**9)) == pytest.approx(log(4**9))
    times = [curve.at(log(4**power)) for power in range(10)]
    assert times == sorted(times)


def test_calls_of_one_size_are_their_mean_by_weight_and_their_spread_is_told() -> None:
    curve = fit_curve([_point(2, 4, weight=3), _point(2, 8, weight=1)], None)
    assert curve.taken == (pytest.approx((3 * log(4) + log(8)) / 4),)
    assert curve.spread == (pytest.approx(sqrt((3 * (log(2) / 4) ** 2 + (3 * log(2) / 4) ** 2) / 4)),)


def test_where_measured_times_fall_neighbours_are_pooled() -> None:
    curve = fit_curve([_point(1, 4), _point(8, 2), _point(64, 90)], None)
    assert curve.taken == (pytest.approx(log(sqrt(8))), pytest.approx(log(sqrt(8))), pytest.approx(log(90)))


def test_of_a_single_call_the_spread_is_half_that_of_all() -> None:
    everything = EfficiencyCurve((0.0,), (0.0,), (2.0,))
    assert fit_curve([CurvePoint(0.0, 0.0, 0.0, 1.0)], everything).spread == (pytest.approx(sqrt(4 / 2)),)


def test_far_from_what_was_measured_the_spread_of_all_is_added() -> None:
    everything = EfficiencyCurve((0.0, 20.0), (0.0, 20.0), (3.0, 3.0))
    curve = EfficiencyCurve((0.0,), (0.0,), (4.0,), everything)
    assert curve.get_spread(SIZE / 2) == 4
    assert curve.get_spread(2 * SIZE) == 5


def test_the_means_of_a_program_count_for_one_each() -> None:
    few = average_by_size([_point(2, 4, weight=3), _point(2, 4, weight=1), _point(50, 70, weight=9)])
    assert [(point.weight, point.kinds) for point in few] == [(1, 2), (1, 1)]


def test_a_chain_of_curves_is_asked_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    interpolate = EfficiencyCurve._interpolate_values

    def count(curve: EfficiencyCurve, values: tuple[float, ...], least: float) -> float:
        asked.append(least)
        return interpolate(curve, values, least)

    curve = EfficiencyCurve((0.0, 10.0), (1.0, 11.0), (0.1, 0.1))
    for _ in range(24):
        curve = EfficiencyCurve((0.0, 10.0), (2.0, 13.0), (0.1, 0.1), curve)
    monkeypatch.setattr(EfficiencyCurve, "_interpolate_values", count)
    assert curve.at(5.0) == 7.5
    assert len(asked) <= 25
