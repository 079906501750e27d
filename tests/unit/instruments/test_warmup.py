"""When warm-up ends: a fake clock plays series of step times."""

import pytest

from perfkit.core.record.step_samples import StepSamples
from perfkit.instruments.warmup import is_steady, warm_up


class Script:
    """A clock whose steps take the given seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def time_steps(self, step, first, count):
        for index in range(first, first + count):
            step(index)
        return StepSamples(wall_s=tuple(self.seconds[first : first + count]))


def test_two_equal_windows_are_steady():
    assert is_steady([1.0] * 10)


def test_less_than_two_windows_are_not():
    assert not is_steady([1.0] * 9)


@pytest.mark.parametrize(("after", "steady"), [(1.029, True), (0.971, True), (1.04, False), (0.95, False)])
def test_medians_must_agree_within_three_percent(after, steady):
    assert is_steady([1.0] * 5 + [after] * 5) is steady


def test_outliers_do_not_unsettle_the_median():
    assert is_steady([1.0, 1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0])


def test_warm_up_ends_when_steady():
    ran = []
    samples, steady = warm_up(ran.append, Script([9.0, 5.0] + [1.0] * 50), least=5, most=30)
    assert steady
    # The five-step medians agree first when at most two of the slow steps are in the older window.
    assert len(samples.wall_s) == 10
    assert ran == list(range(10))


def test_warm_up_is_bounded_and_says_that_it_did_not_settle():
    samples, steady = warm_up(lambda index: None, Script([2.0**-index for index in range(40)]), least=5, most=12)
    assert not steady
    assert len(samples.wall_s) == 12


def test_ranks_go_on_until_all_agree():
    answers = iter([False, False, False, True])
    samples, steady = warm_up(
        lambda index: None, Script([1.0] * 50), least=10, most=30, agree=lambda mine: mine and next(answers)
    )
    assert steady
    assert len(samples.wall_s) == 13
