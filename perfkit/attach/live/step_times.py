"""Measures step times, by the CPU's clock or by device events."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from perfkit.devices.accelerator import get_accelerator

# The number of a step and its time in nanoseconds.
StepTime = tuple[int, int]


class StepTimes(Protocol):
    """Step times from the starts and ends of steps, in order, possibly some steps later."""

    def start(self, now_ns: int) -> None:
        """Start a step; earlier time belongs to none."""

    def end(self, step: int, now_ns: int) -> Sequence[StepTime]:
        """End a step and start the next. Returns the times that became known."""


class HostTimes:
    """Times by the caller's clock: valid where the CPU does the work."""

    def __init__(self) -> None:
        self._since = 0

    def start(self, now_ns: int) -> None:
        self._since = now_ns

    def end(self, step: int, now_ns: int) -> Sequence[StepTime]:
        since, self._since = self._since, now_ns
        return ((step, now_ns - since),)


class DeviceTimes:
    """Times between events on the device's current stream, because the CPU runs ahead of it.

    An event is asked whether the device has reached it, and never waited for. Not to be told of anything while a CUDA
    graph is being captured, when nothing may be recorded or asked.

    Not yet tried on hardware.
    """

    def __init__(
        self,
        device: torch.device,
        new_event: Callable[[], Any],
        current_stream: Callable[[torch.device], Any],
    ) -> None:
        self._device = device
        self._new_event = new_event
        self._current_stream = current_stream
        self._since: Any = None
        self._waiting: deque[tuple[int, Any, Any]] = deque()
        self._spare: list[Any] = []

    def start(self, now_ns: int) -> None:
        self._since = self._record_event()

    def end(self, step: int, now_ns: int) -> Sequence[StepTime]:
        since, self._since = self._since, self._record_event()
        if since is not None:
            self._waiting.append((step, since, self._since))
        known = []
        while self._waiting and self._waiting[0][2].query():
            number, before, after = self._waiting.popleft()
            known.append((number, round(before.elapsed_time(after) * 1e6)))
            self._spare.append(before)  # as an `after` it was reached and read before
        return known

    def _record_event(self) -> Any:
        event = self._spare.pop() if self._spare else self._new_event()
        event.record(self._current_stream(self._device))
        return event


def choose_step_times(device: torch.device) -> StepTimes:
    accelerator = get_accelerator(device)
    if not accelerator.has_events:
        return HostTimes()
    runtime = accelerator.runtime
    return DeviceTimes(device, lambda: runtime.Event(enable_timing=True), runtime.current_stream)
