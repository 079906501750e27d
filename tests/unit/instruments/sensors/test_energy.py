"""Energy from a counter that moves every 100 ms, on a fake clock: short windows say nothing, long ones hold all."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from perfkit.core.record.quantity import Measurement, QuantityOrigin, Unknown
from perfkit.instruments.sensors.energy import EnergyWindow, StepEnergy, explain_missing_counter
from tests.fixtures.energy_counter import BUSY_W, FakeGpu


def measure(gpu: FakeGpu, steps: int, step_s: float, *, settle: bool = False) -> StepEnergy:
    window = EnergyWindow(gpu.joules, settle=settle, now=gpu.now, sleep=gpu.sleep)
    for _ in range(steps):
        gpu.step(step_s)
    return window.close(steps, "more steps")


def known(energy: StepEnergy) -> tuple[Measurement, Measurement]:
    assert isinstance(energy.step, Measurement)
    assert isinstance(energy.power, Measurement)
    return energy.step, energy.power


def test_a_short_window_has_no_energy() -> None:
    gpu = FakeGpu()
    energy = measure(gpu, 6, 0.05)
    assert energy.step == energy.power == Unknown(reason="window 0.3 s < 2 s: more steps")
    assert gpu.now() == pytest.approx(0.33)  # and nothing was waited for


def test_two_readings_of_a_short_window_would_have_been_far_off() -> None:
    gpu = FakeGpu(now_s=0.0)
    before = gpu.joules()
    gpu.step(0.19)
    after = gpu.joules()
    assert (after - before) / (BUSY_W * 0.19) < 0.6


@pytest.mark.parametrize("now_s", [0.0, 0.03, 0.099, 0.1])
@pytest.mark.parametrize("worked_s", [0.0, 0.099])
@pytest.mark.parametrize("settle", [False, True])
def test_a_long_window_is_right_to_what_it_says(now_s: float, worked_s: float, *, settle: bool) -> None:
    gpu = FakeGpu(now_s=now_s)
    gpu.step(worked_s)
    step, power = known(measure(gpu, 100, 0.05, settle=settle))
    assert (step.unit, power.unit, step.how) == ("J", "W", QuantityOrigin.MEASURED)
    told = re.search(r"± ([\d.]+) %", step.source)
    assert 1 <= float(told[1]) <= 5
    assert step.value == pytest.approx(BUSY_W * 0.05, rel=float(told[1]) / 100)
    assert power.value == pytest.approx(BUSY_W, rel=float(told[1]) / 100)


def test_the_source_tells_steps_window_and_the_tick_that_was_seen() -> None:
    step, power = known(measure(FakeGpu(), 100, 0.05, settle=True))
    assert step.source == power.source
    assert re.findall(r"[\d.]+", step.source) == ["100", "5.0", "100", "2.0"]
    step, _ = known(measure(FakeGpu(), 1, 5.0))  # the reading before may have lagged behind work
    assert re.findall(r"[\d.]+", step.source) == ["1", "5.0", "100", "4.0"]


def test_the_last_steps_are_in_it_although_the_counter_lags() -> None:
    gpu = FakeGpu(now_s=0.0)
    step, _ = known(measure(gpu, 1, 2.099))
    assert step.value >= BUSY_W * 2.099


def test_what_ran_before_a_settled_window_is_not_in_it() -> None:
    found = {}
    for settle in (False, True):
        gpu = FakeGpu(now_s=0.0)
        gpu.step(0.099)
        found[settle], _ = known(measure(gpu, 1, 2.001, settle=settle))
    assert found[False].value > BUSY_W * 2.001 + BUSY_W * 0.05
    assert found[True].value == pytest.approx(BUSY_W * 2.001, rel=0.01)


def test_a_counter_that_stands_still_says_nothing() -> None:
    gpu = FakeGpu(stuck=True)
    step = measure(gpu, 100, 0.05).step
    assert isinstance(step, Unknown)
    assert "NVML" in step.reason
    assert "1 s" in step.reason


def test_a_device_without_a_counter() -> None:
    gpu = FakeGpu()
    window = EnergyWindow(lambda: None, settle=True, now=gpu.now, sleep=gpu.sleep)
    gpu.step(5.0)
    energy = window.close(1, "more steps")
    assert isinstance(energy.step, Unknown)
    assert "energy counter" in energy.step.reason


def test_where_no_counter_can_be_asked_there_is_a_reason() -> None:
    sensors: Any = SimpleNamespace()
    assert "CPU" in explain_missing_counter(torch.device("cpu"), None)
    assert "NVML" in explain_missing_counter(torch.device("cuda", 0), None)  # AMD's GPUs, too
    assert explain_missing_counter(torch.device("cuda", 0), sensors) == ""
