"""Energy of steps, from a counter that is updated every tens of milliseconds.

A reading of NVML's counter is that of its latest tick, up to one tick old. In a short window that is most of the
figure; the counter may even stand still throughout. So a window of less than `LEAST_S` has no energy, and after a
longer one the next tick is awaited, which includes all of the steps' energy. The remaining error is stated with the
figure: the device's idling before the first step and after the last, less than a tick holds under load, and one more
tick if the first reading may have lagged behind work. The length of a tick is observed, as chips and drivers differ.

The counter's accuracy is another matter: on A100 and H100 the sensor samples a quarter of the time ("Part-time Power
Measurements", arXiv 2312.02741), and only many short steps in a row even that out.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from perfkit.core.record.quantity import Quantity, Unknown, make_measurement
from perfkit.core.units import format_percent
from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.sensors.sensors import Sensors

LEAST_S = 2.0

_POLL_S = 0.002
_PATIENCE_S = 1.0


class StepEnergy(NamedTuple):
    """Energy of the steps of a window: joules per step, and mean power in watts."""

    step: Quantity
    power: Quantity


class _CounterTick(NamedTuple):
    time_s: float
    joules: float


class EnergyWindow:
    """The steps between its construction and `close`.

    `read` returns the counter in joules, None without one. With `settle` it begins at a tick of the counter, which then
    excludes earlier work: the device must be idle, and is for up to a tick.
    """

    def __init__(
        self,
        read: Callable[[], float | None],
        *,
        settle: bool = False,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read = read
        self._now = now
        self._sleep = sleep
        self._uncertain_ticks = 1 if settle else 2
        if settle:
            self._wait_for_tick()
        self._before = read()
        self._began = now()

    def close(self, steps: int, remedy: str) -> StepEnergy:
        """The energy of `steps` steps, which the device has just finished; `remedy` says what to type where the window
        was too short. After one that was long enough this waits for two ticks."""
        seconds = self._now() - self._began
        if self._before is None:
            return make_unknown_energy("the device has no energy counter (NVML: Volta or later, and whole GPUs)")
        if seconds < LEAST_S:
            return make_unknown_energy(f"window {seconds:.1f} s < {LEAST_S:.0f} s: {remedy}")
        first, second = self._wait_for_tick(), self._wait_for_tick()
        if first is None or second is None:
            return make_unknown_energy(f"NVML's energy counter did not change within {_PATIENCE_S:.0f} s")
        joules, tick_s = first.joules - self._before, second.time_s - first.time_s
        uncertainty = format_percent(self._uncertain_ticks * tick_s / seconds)
        source = (
            f"NVML energy counter over {steps:,} step{'' if steps == 1 else 's'}, {seconds:.1f} s; updated every "
            f"{tick_s * 1e3:.0f} ms: ± {uncertainty}"
        )
        return StepEnergy(
            make_measurement(joules / steps, "J", source), make_measurement(joules / seconds, "W", source)
        )

    def _wait_for_tick(self) -> _CounterTick | None:
        """Wait until the counter moves; None where it does not."""
        until = self._now() + _PATIENCE_S
        before = after = self._read()
        while after is not None and after == before:
            if self._now() > until:
                return None
            self._sleep(_POLL_S)
            after = self._read()
        return None if after is None else _CounterTick(self._now(), after)


def make_unknown_energy(reason: str) -> StepEnergy:
    return StepEnergy(Unknown(reason=reason), Unknown(reason=reason))


def explain_missing_counter(device: torch.device, sensors: Sensors | None) -> str:
    """Explain why the device's energy is not measured; "" if it has a counter."""
    accelerator = get_accelerator(device)
    if not accelerator.has_nvml:
        return f"no energy counter is supported on a {accelerator.name}"
    return "" if sensors else "NVML is not available, and no other energy counter is supported"
