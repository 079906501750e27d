"""Timing of consecutive steps with nothing on but the clock."""

import math
import time
from collections.abc import Callable
from itertools import chain, pairwise, repeat
from statistics import fmean
from typing import Protocol

import torch

from perfkit.core.record.step_samples import StepSamples
from perfkit.devices.accelerator import get_accelerator

Step = Callable[[int], None]


class Clock(Protocol):
    """Times `count` consecutive steps, `step(first)` to `step(first + count - 1)`."""

    def time_steps(self, step: Step, first: int, count: int) -> StepSamples: ...


class HostClock:
    """Wall time and process CPU time (all threads) of every step: right where the host does the work."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.perf_counter_ns, cpu_ns: Callable[[], int] = time.process_time_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._cpu_ns = cpu_ns

    def time_steps(self, step: Step, first: int, count: int) -> StepSamples:
        wall = [self._wall_ns()]
        cpu = [self._cpu_ns()]
        for index in range(first, first + count):
            step(index)
            wall.append(self._wall_ns())
            cpu.append(self._cpu_ns())
        return StepSamples(wall_s=_compute_durations(wall), cpu_s=_compute_durations(cpu))


class EventClock:
    """Device events between steps, read after the last: the CPU may run ahead, as in real training.

    Events go to the current stream of the clock's device: the process's current device may be another, idle one, and
    the time between two events on an idle device is that of launching. The CPU's wall and CPU time of a step is that of
    launching it; the last step also waits for the device, so that sums are right.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._runtime = get_accelerator(device).runtime

    def time_steps(self, step: Step, first: int, count: int) -> StepSamples:
        events = [self._runtime.Event(enable_timing=True) for _ in range(count + 1)]
        self._runtime.synchronize(self._device)
        wall = [time.perf_counter_ns()]
        cpu = [time.process_time_ns()]
        events[0].record(self._runtime.current_stream(self._device))
        for offset in range(count):
            step(first + offset)
            events[offset + 1].record(self._runtime.current_stream(self._device))
            if offset == count - 1:
                self._runtime.synchronize(self._device)
            wall.append(time.perf_counter_ns())
            cpu.append(time.process_time_ns())
        device = tuple(before.elapsed_time(after) * 1e-3 for before, after in pairwise(events))
        return StepSamples(wall_s=_compute_durations(wall), cpu_s=_compute_durations(cpu), device_s=device)


class CycleClock:
    """Times whole cycles of `count` steps, and gives each step the mean of its cycle.

    If one step of a cycle does more than the others, no single step is representative: a median would be that of the
    others.
    """

    def __init__(self, clock: Clock, cycle: int) -> None:
        self._clock = clock
        self._cycle = cycle

    def time_steps(self, step: Step, first: int, count: int) -> StepSamples:
        steps = self._clock.time_steps(step, first, round_to_cycles(count, self._cycle))
        return StepSamples(
            wall_s=self._average_cycles(steps.wall_s),
            cpu_s=self._average_cycles(steps.cpu_s),
            device_s=self._average_cycles(steps.device_s),
        )

    def _average_cycles(self, times: tuple[float, ...]) -> tuple[float, ...]:
        cycles = [times[begin : begin + self._cycle] for begin in range(0, len(times), self._cycle)]
        return tuple(chain.from_iterable(repeat(fmean(cycle), len(cycle)) for cycle in cycles))


def round_to_cycles(count: int, cycle: int) -> int:
    """So many steps, and as many more as make whole cycles."""
    return math.ceil(count / cycle) * cycle


def choose_clock(device: torch.device, cycle: int = 1) -> Clock:
    """Choose the clock for the device, and for steps that repeat only after a cycle."""
    clock: Clock = EventClock(device) if get_accelerator(device).has_events else HostClock()
    return CycleClock(clock, cycle) if cycle > 1 else clock


def get_step_times(samples: StepSamples) -> tuple[float, ...]:
    """The step times in seconds: the device's where it has its own, else wall time."""
    return samples.device_s or samples.wall_s


def join_samples(first: StepSamples, second: StepSamples) -> StepSamples:
    """Two consecutive series as one."""
    return StepSamples(
        wall_s=first.wall_s + second.wall_s,
        cpu_s=first.cpu_s + second.cpu_s,
        device_s=first.device_s + second.device_s,
    )


def _compute_durations(stamps: list[int]) -> tuple[float, ...]:
    return tuple((after - before) / 1e9 for before, after in pairwise(stamps))
