import math

import pytest

from perfkit.core.record.step_samples import StepSamples, compute_log_ratio, merge_slowest_ranks


def test_by_turns_the_ratio_is_that_of_neighbours() -> None:
    reference = StepSamples(wall_s=(1.0, 2.0, 10.0), cpu_s=(1.0, 1.0, 1.0))
    variant = StepSamples(wall_s=(2.0, 4.0, 10.0), cpu_s=(1.0, 1.0, 3.0))
    assert compute_log_ratio(reference, variant, by_turns=True) == pytest.approx(math.log(2))
    assert compute_log_ratio(reference, variant, by_turns=False) == pytest.approx(math.log(2))
    shifted = StepSamples(wall_s=(10.0, 2.0, 4.0))
    assert compute_log_ratio(reference, shifted, by_turns=True) == 0.0
    assert compute_log_ratio(reference, shifted, by_turns=False) == pytest.approx(math.log(2))
    assert compute_log_ratio(reference, variant, by_turns=True, cpu=True) == 0.0


def test_device_events_go_before_wall_time_where_both_have_them() -> None:
    device = StepSamples(wall_s=(1.0,), device_s=(4.0,))
    assert compute_log_ratio(device, StepSamples(wall_s=(1.0,), device_s=(8.0,)), by_turns=False) == pytest.approx(
        math.log(2)
    )
    assert compute_log_ratio(device, StepSamples(wall_s=(3.0,)), by_turns=False) == pytest.approx(math.log(3))


def test_what_cannot_be_divided_has_no_ratio() -> None:
    assert compute_log_ratio(StepSamples(), StepSamples(wall_s=(1.0,)), by_turns=True) is None
    assert compute_log_ratio(StepSamples(cpu_s=(0.0,)), StepSamples(cpu_s=(1.0,)), by_turns=True, cpu=True) is None


def test_a_step_of_several_ranks_is_that_of_its_slowest() -> None:
    ranks = [
        StepSamples(wall_s=(1.0, 5.0), cpu_s=(3.0, 1.0), device_s=(7.0, 0.0)),
        StepSamples(wall_s=(2.0, 4.0), cpu_s=(2.0, 2.0), device_s=(0.0, 8.0)),
    ]
    assert merge_slowest_ranks(ranks) == StepSamples(wall_s=(2.0, 5.0), cpu_s=(3.0, 2.0), device_s=(7.0, 8.0))
    assert merge_slowest_ranks([StepSamples(wall_s=(1.0,), cpu_s=(1.0,))]) == StepSamples(wall_s=(1.0,), cpu_s=(1.0,))
