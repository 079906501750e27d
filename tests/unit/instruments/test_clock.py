"""The clocks with fake time: exact step times, in order, of the device that works, and joined series."""

import pytest
import torch

from perfkit.core.record.step_samples import StepSamples
from perfkit.instruments.clock import CycleClock, EventClock, HostClock, get_step_times, join_samples, round_to_cycles
from tests.fixtures.two_gpus import LAUNCH_MS, two_gpus


class FakeTime:
    """Wall and CPU time in nanoseconds that only steps move."""

    def __init__(self, durations_ns):
        self.now = 1_000
        self.cpu = 7
        self.durations_ns = durations_ns

    def step(self, index):
        self.now += self.durations_ns[index]
        self.cpu += 2 * self.durations_ns[index]


def test_each_step_is_timed_alone():
    time = FakeTime([5_000_000, 7_000_000, 11_000_000])
    clock = HostClock(wall_ns=lambda: time.now, cpu_ns=lambda: time.cpu)
    samples = clock.time_steps(time.step, 0, 3)
    assert samples.wall_s == (0.005, 0.007, 0.011)
    assert samples.cpu_s == (0.010, 0.014, 0.022)
    assert samples.device_s == ()


def test_steps_are_numbered_from_first():
    seen = []
    HostClock().time_steps(seen.append, 4, 3)
    assert seen == [4, 5, 6]


def test_device_time_is_the_step_time_where_there_is_one():
    assert get_step_times(StepSamples(wall_s=(1.0,), device_s=(2.0,))) == (2.0,)
    assert get_step_times(StepSamples(wall_s=(1.0,))) == (1.0,)


def test_series_join_in_order():
    both = join_samples(StepSamples(wall_s=(1.0,), cpu_s=(2.0,)), StepSamples(wall_s=(3.0,), cpu_s=(4.0,)))
    assert both.wall_s == (1.0, 3.0)
    assert both.cpu_s == (2.0, 4.0)


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
@pytest.mark.parametrize("gpu", [0, 1])
def test_device_times_are_of_the_gpu_that_works_whichever_is_current(monkeypatch, kind, gpu):
    gpus = two_gpus(monkeypatch, kind)
    samples = EventClock(torch.device(kind, gpu)).time_steps(lambda index: gpus.launch(gpu, 20.0 + index), 0, 3)
    # The first step begins on an idle device, which waits for the launch.
    assert samples.device_s == pytest.approx(((20 + LAUNCH_MS) / 1e3, 0.021, 0.022))
    assert gpus.recorded == [gpu] * 4
    assert gpus.contexts == {gpu}


def test_steps_of_a_cycle_take_the_mean_of_it():
    time = FakeTime([1_000_000, 5_000_000, 3_000_000, 7_000_000])
    samples = CycleClock(HostClock(wall_ns=lambda: time.now, cpu_ns=lambda: time.cpu), 2).time_steps(time.step, 0, 3)
    assert samples.wall_s == (0.003, 0.003, 0.005, 0.005)
    assert samples.cpu_s == (0.006, 0.006, 0.010, 0.010)
    assert samples.device_s == ()


def test_whole_cycles_are_at_least_what_is_asked():
    assert [round_to_cycles(count, 4) for count in (1, 4, 5)] == [4, 4, 8]
    assert round_to_cycles(7, 1) == 7
