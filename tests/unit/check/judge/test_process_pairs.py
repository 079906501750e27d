import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from perfkit.check.judge.check_thresholds import parse_threshold
from perfkit.check.judge.looks import ALPHA, list_looks, plan_looks
from perfkit.check.judge.process_pairs import Gate, compute_pair_ratio, judge_pairs
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.check.judge.result import JudgedQuantity, Verdict
from perfkit.core.record.step_samples import StepSamples
from perfkit.store.pairs import ALTERNATING, LOCK_STEP, Pair
from tests.fixtures.paired_series import pair

QUANTITY = {quantity.name: quantity for quantity in QUANTITIES}


def _gate(name: str, threshold: str | None = None, per_step: tuple[float, float] | None = None) -> Gate:
    quantity = QUANTITY[name]
    parsed = threshold and parse_threshold(threshold, quantity.unit, more_is_worse=quantity.more_is_worse)
    return Gate(quantity=quantity, threshold=parsed or None, per_step=per_step)


GATES = (_gate("cpu_time", "3%"), _gate("step_time", "5%"))


def _pairs(count: int, *, seed: int = 0, slower: float = 1.0, between: float = 0.03, steps: int = 20) -> list[Pair]:
    rng = np.random.default_rng(seed)
    return [pair(rng, slower=slower, between=between, steps=steps) for _ in range(count)]


def _scaled(given: Pair, before: float, after: float) -> Pair:
    def side(samples: StepSamples, factor: float) -> StepSamples:
        return StepSamples(
            wall_s=tuple(step * factor for step in samples.wall_s), cpu_s=tuple(s * factor for s in samples.cpu_s)
        )

    return msgspec.structs.replace(given, before=side(given.before, before), after=side(given.after, after))


def _swapped(pairs: Sequence[Pair]) -> list[Pair]:
    return [Pair(before=each.after, after=each.before, seconds=each.seconds) for each in pairs]


def _judge(pairs: Sequence[Pair], *gates: Gate) -> tuple[JudgedQuantity, ...]:
    return judge_pairs(pairs, LOCK_STEP, gates or GATES, plan_looks(list_looks(len(pairs))))


def test_in_lock_step_the_ratio_is_of_steps_next_to_each_other() -> None:
    measured = Pair(
        before=StepSamples(wall_s=(1.0, 2.0, 4.0)), after=StepSamples(wall_s=(1.1, 2.0 * 1.1, 4.0 * 1.3)), seconds=1
    )
    assert compute_pair_ratio(measured, "step_time", LOCK_STEP) == pytest.approx(math.log(1.1))


def test_of_alternating_processes_it_is_of_the_medians() -> None:
    measured = Pair(
        before=StepSamples(wall_s=(5.0, 1.0, 2.0)), after=StepSamples(wall_s=(3.0, 4.0, 9.0, 3.0)), seconds=1
    )
    assert compute_pair_ratio(measured, "step_time", ALTERNATING) == pytest.approx(math.log(3.5 / 2))


def test_device_time_goes_before_wall_time_where_both_sides_have_it() -> None:
    with_device = StepSamples(wall_s=(1.0,), cpu_s=(3.0,), device_s=(0.5,))
    slower = StepSamples(wall_s=(1.0,), cpu_s=(6.0,), device_s=(1.0,))
    both = Pair(before=with_device, after=slower, seconds=1)
    assert compute_pair_ratio(both, "step_time", LOCK_STEP) == pytest.approx(math.log(2))
    assert compute_pair_ratio(both, "cpu_time", LOCK_STEP) == pytest.approx(math.log(2))
    one = Pair(before=with_device, after=msgspec.structs.replace(slower, device_s=()), seconds=1)
    assert compute_pair_ratio(one, "step_time", LOCK_STEP) == 0


@pytest.mark.parametrize("turns", [LOCK_STEP, ALTERNATING])
def test_no_steps_and_a_clock_that_stood_still_give_no_ratio(turns: str) -> None:
    assert (
        compute_pair_ratio(Pair(before=StepSamples(), after=StepSamples(wall_s=(1.0,)), seconds=1), "step_time", turns)
        is None
    )
    still = Pair(before=StepSamples(cpu_s=(0.0, 0.0)), after=StepSamples(cpu_s=(0.0, 0.1)), seconds=1)
    assert compute_pair_ratio(still, "cpu_time", turns) is None


def test_a_regression_fails_and_says_by_how_much() -> None:
    cpu, wall = _judge(_pairs(20, slower=1.10))
    assert cpu.verdict is Verdict.FAIL
    assert cpu.change == pytest.approx(0.10, abs=0.03)
    assert cpu.low is not None
    assert cpu.high is not None
    assert 0 < cpu.low < cpu.change < cpu.high
    assert cpu.before is not None
    assert cpu.after is not None
    assert cpu.before < cpu.after
    assert cpu.level == 0.99
    assert cpu.samples == 20
    assert "3%" in cpu.reason
    assert wall.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)


def test_an_improvement_is_told_and_is_no_failure() -> None:
    cpu, _ = _judge(_pairs(20, slower=1 / 1.10))
    assert cpu.verdict is Verdict.IMPROVED
    assert cpu.high is not None
    assert cpu.high < 0


def test_no_change_passes_only_where_the_threshold_is_excluded() -> None:
    found = [judged for seed in range(30) for judged in _judge(_pairs(10, seed=seed, between=0.04))]
    for judged in found:
        assert judged.high is not None
        assert judged.threshold.relative is not None
        if judged.verdict is Verdict.PASS:
            assert judged.high < judged.threshold.relative
        elif judged.verdict is Verdict.INCONCLUSIVE:
            assert judged.high >= judged.threshold.relative
    assert {judged.verdict for judged in found} >= {Verdict.PASS, Verdict.INCONCLUSIVE}


def test_what_is_certainly_worse_fails_beyond_the_threshold_and_is_worse_below_it() -> None:
    found = [
        judged
        for seed in range(60)
        for judged in _judge(_pairs(12, seed=seed, slower=1.03, between=0.01, steps=8))
        if judged.low is not None and judged.low > 0.003  # more than Holm's correction takes
    ]
    for judged in found:
        assert judged.threshold is not None
        assert judged.change is not None
        beyond = judged.change > (judged.threshold.relative or 0)
        assert judged.verdict is (Verdict.FAIL if beyond else Verdict.WORSE)
        assert ("above" if beyond else "within") in judged.reason
    assert {judged.verdict for judged in found} == {Verdict.FAIL, Verdict.WORSE}


def test_worse_is_decided_where_the_interval_leaves_no_other_verdict() -> None:
    found = [judged for seed in range(40) for judged in _judge(_pairs(16, seed=seed, slower=1.04, between=0.02))]
    worse = [judged for judged in found if judged.verdict in (Verdict.FAIL, Verdict.WORSE)]
    for judged in worse:
        assert judged.low is not None
        assert judged.high is not None
        assert judged.threshold.relative is not None
        assert judged.is_decided is not (judged.low <= judged.threshold.relative <= judged.high)
        assert ("certainly" if judged.is_decided else "estimate") in judged.reason
    assert {judged.is_decided for judged in worse} == {True, False}
    assert not any(judged.is_decided for judged in found if judged.verdict is Verdict.INCONCLUSIVE)


def test_identical_sides_fail_in_no_more_than_one_of_a_hundred() -> None:
    plan = plan_looks((6, 10))
    rng = np.random.default_rng(8)
    failed = 0
    for _ in range(300):
        pairs = [pair(rng, steps=11) for _ in range(plan.maximum)]
        failed += any(
            judged.verdict is Verdict.FAIL
            for look in plan.looks
            for judged in judge_pairs(pairs[:look], LOCK_STEP, GATES, plan)
        )
    assert failed <= 300 * ALPHA


def test_swapping_the_sides_negates() -> None:
    pairs = _pairs(12, slower=1.04)
    for one, other in zip(_judge(pairs), _judge(_swapped(pairs)), strict=True):
        assert one.change is not None
        assert other.change is not None
        assert math.log1p(one.change) == pytest.approx(-math.log1p(other.change))
        assert one.low is not None
        assert other.high is not None
        assert math.log1p(one.low) == pytest.approx(-math.log1p(other.high))
        assert (one.before, one.after) == (other.after, other.before)


def test_a_faster_machine_changes_nothing_but_the_seconds() -> None:
    pairs = _pairs(12, slower=1.04)
    for one, other in zip(_judge(pairs), _judge([_scaled(each, 0.25, 0.25) for each in pairs]), strict=True):
        assert one.verdict is other.verdict
        assert other.change == pytest.approx(one.change)
        assert other.high == pytest.approx(one.high)
        assert other.before == pytest.approx((one.before or 0) / 4)


def test_between_two_looks_nothing_is_judged() -> None:
    pairs = _pairs(9, slower=1.04)
    plan = plan_looks((6, 10, 20))
    assert judge_pairs(pairs, LOCK_STEP, GATES, plan) == judge_pairs(pairs[:6], LOCK_STEP, GATES, plan)


def test_before_the_first_look_nothing_is_concluded() -> None:
    for judged in judge_pairs(_pairs(4, slower=2.0), LOCK_STEP, GATES, plan_looks((6, 10))):
        assert judged.verdict is Verdict.INCONCLUSIVE
        assert judged.low is None
        assert judged.detectable is None
        assert judged.change is not None
        assert "too few" in judged.reason


def test_what_is_inconclusive_says_how_many_more_pairs_would_decide() -> None:
    _, wall = _judge(_pairs(8, between=0.10))
    assert wall.verdict is Verdict.INCONCLUSIVE
    assert "more pairs" in wall.data_needed
    assert "5.0 %" in wall.data_needed


def test_without_a_threshold_it_is_reported_and_does_not_count() -> None:
    pairs = _pairs(20, slower=1.10)
    (judged,) = _judge(pairs, _gate("cpu_time"))
    assert judged.verdict is Verdict.PASS
    assert judged.low is not None
    assert judged.low > 0
    alone = _judge(pairs, GATES[0])[0]
    beside = _judge(pairs, GATES[0], _gate("step_time"))[0]
    assert alone == beside


def test_a_rate_is_the_step_time_seen_from_the_other_side() -> None:
    pairs = _pairs(16, slower=1.10, between=0.02)
    time, rate = _judge(pairs, _gate("step_time"), _gate("throughput", None, (512.0, 512.0)))
    assert time.before is not None
    assert rate.before == pytest.approx(512 / time.before)
    assert time.change is not None
    assert rate.change is not None
    assert 1 + rate.change == pytest.approx(1 / (1 + time.change))
    assert rate.low is not None
    assert time.high is not None
    assert 1 + rate.low == pytest.approx(1 / (1 + time.high))


def test_a_falling_rate_fails_and_the_same_data_count_once() -> None:
    pairs = _pairs(16, slower=1.15, between=0.02)
    (alone,) = _judge(pairs, _gate("throughput", "5%", (512.0, 512.0)))
    beside, _ = _judge(pairs, _gate("throughput", "5%", (512.0, 512.0)), _gate("step_time", "5%"))
    assert alone.verdict is Verdict.FAIL
    assert alone == beside


def test_a_rate_of_more_work_a_step_is_not_worse_for_longer_steps() -> None:
    pairs = _pairs(16, slower=2.0, between=0.01)
    (rate,) = _judge(pairs, _gate("throughput", "10%", (512.0, 1024.0)))
    assert rate.change == pytest.approx(0, abs=0.04)
    assert rate.verdict is not Verdict.FAIL


def test_absolute_thresholds_and_limits_are_taken_relative_to_the_value_before() -> None:
    pairs = [_scaled(each, 1, 1) for each in _pairs(20, slower=1.10, between=0.01)]
    (change,) = _judge(pairs, _gate("cpu_time", "+0.1ms"))
    (limit,) = _judge(pairs, _gate("cpu_time", "<=13.2ms"))
    (wide,) = _judge(pairs, _gate("cpu_time", "<=20ms"))
    assert (change.verdict, limit.verdict, wide.verdict) == (Verdict.FAIL, Verdict.FAIL, Verdict.WORSE)


def test_beyond_the_limit_before_and_after_fails() -> None:
    (judged,) = _judge(_pairs(20, between=0.01), _gate("cpu_time", "<=10ms"))
    assert judged.verdict is Verdict.FAIL


def test_that_nothing_changed_at_all_cannot_be_shown() -> None:
    (judged,) = _judge(_pairs(20), _gate("cpu_time", "0%"))
    assert judged.verdict in (Verdict.INCONCLUSIVE, Verdict.IMPROVED)
    assert "above 0" in judged.reason


def test_more_quantities_judged_elsewhere_make_a_failure_harder() -> None:
    pairs = _pairs(10, slower=1.06, seed=3)
    plan = plan_looks((10,))
    verdicts = [judge_pairs(pairs, LOCK_STEP, GATES[:1], plan, family=n)[0].verdict for n in (1, 10_000_000)]
    assert verdicts == [Verdict.FAIL, Verdict.INCONCLUSIVE]


def test_pairs_without_the_quantity_do_not_count() -> None:
    empty = Pair(before=StepSamples(), after=StepSamples(), seconds=1)
    cpu, _ = _judge([*_pairs(9), empty])
    assert cpu.samples == 9
    for judged in _judge([empty] * 6):
        assert judged.verdict is Verdict.NOT_COMPARED


def test_a_single_pair_has_a_change_and_no_interval() -> None:
    lone = Pair(before=StepSamples(cpu_s=(0.1, 0.1)), after=StepSamples(cpu_s=(0.3, 0.3)), seconds=1.0)
    (judged,) = judge_pairs([lone], LOCK_STEP, [_gate("cpu_time", "3%")], plan_looks((1,)))
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.change == pytest.approx(2)  # however large
    assert (judged.low, judged.high) == (None, None)
    assert judged.data_needed
