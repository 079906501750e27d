"""Watches the peak memory of an attached loop: which step, or which evaluation, raised it."""

from collections.abc import Callable
from functools import partial

import torch

from perfkit.attach.loop.loop_follower import StepCounts
from perfkit.core.record.attached_loop import PeakKind, PeakRise
from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.sensors.memory_peaks import read_peak_rss_bytes

ALLOCATOR, PROCESS = "allocator", "process"

# The least rise that is kept: resident sets and allocators' rounding vary by less.
_NOTABLE = 0.005
# Steps of known shapes and without an evaluation between two readings.
_STRIDE = 50


class PeakWatch:
    """Reads the peak that the device's allocator keeps, or on a CPU the process, at the boundaries of steps.

    Nothing is reset: that a step raised the peak shows in the reading after it, and one that needs less shows nothing.

    Attributes:
        source: `allocator`, or `process` where the allocator keeps no peak.
        rises: every reading that was higher than those before, the first included.
    """

    def __init__(self, device: torch.device, read: Callable[[], int] | None = None) -> None:
        accelerator = get_accelerator(device)
        known = accelerator.has_memory_statistics
        self.source = ALLOCATOR if known else PROCESS
        own = partial(_read_allocator_peak, device) if known else read_peak_rss_bytes
        self._read = read or own
        self.rises: list[PeakRise] = []
        self._last = 0
        self._since = 0
        self._shapes: set[int] = set()

    def look(self, counts: StepCounts, step: int, *, warms_up: bool = False) -> None:
        """Note step `step`, which has just ended with these counts.

        The peak is read after steps of the warm-up, with an evaluation or with new shapes, and now and then, so that
        timed steps stay free of it.
        """
        self._since += 1
        shapes = counts.input_shapes  # 0: not looked at
        unseen = bool(shapes) and shapes not in self._shapes
        is_new = unseen and bool(self._shapes)
        if unseen:
            self._shapes.add(shapes)
        if warms_up or counts.evaluations or unseen or self._since >= _STRIDE:
            self._note("evaluation" if counts.evaluations else "step", counts, step, has_new_shape=is_new)

    def begin(self, step: int) -> None:
        """The first reading, after step `step`, in which the optimizer state was made."""
        self._since = 1
        self._note("first_step", StepCounts(), step)

    def pass_over(self) -> None:
        """Go on from the peak as it is now: what raised it since the last reading is not the loop's."""
        self._last, self._since = max(self._last, self._read()), 0

    def end(self, steps: int) -> None:
        """The loop has ended; `steps` is the last step that was seen."""
        self._note("unwatched", StepCounts(), steps)

    def _note(self, kind: PeakKind, counts: StepCounts, step: int, *, has_new_shape: bool = False) -> None:
        peak, since = self._read(), self._since
        self._since = 0
        if peak < self._last:  # the program has reset it
            self._last = peak
        elif peak > self._last * (1 + _NOTABLE):
            self.rises.append(
                PeakRise(
                    kind=kind,
                    step=step,
                    steps=since,
                    bytes=peak,
                    evaluations=counts.evaluations,
                    input_shape=counts.input_shape,
                    has_new_shape=has_new_shape,
                )
            )
            self._last = peak


def _read_allocator_peak(device: torch.device) -> int:
    return int(get_accelerator(device).runtime.max_memory_allocated(device))
