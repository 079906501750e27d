"""Limits the cost of recordings for the program: seconds, and bytes of system memory."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from perfkit.core.units import format_bytes, format_percent, format_seconds
from perfkit.devices.machine.machine import CGROUP, read_container_memory_limit

# Recordings may take so much of the time that has passed since the watching began, and in any case so many seconds:
# they come early, when a share of the time that has passed is next to nothing.
OVERHEAD = 0.05
FLOOR_S = 10.0
# Without a limit recordings may take this part of the memory that is available when they begin.
_PART = 0.25
# With less available memory than this share, up to a maximum, no recording begins and the current one ends.
_RESERVE = 0.05
_MOST_RESERVED = 2 * 2**30
# What torch holds when it closes a recording, in bytes that the process grew by while it went on. Measured: 167 MB
# became 837 MB.
_CLOSING = 5.0
# The most checks within a step: each takes some 50 us.
_PERIOD_S = 0.02
# And the time to close, in seconds per byte: 4.6 s.
_CLOSING_S = 28.0 / 2**30
# What recording memory takes, in times of closing a trace of one step: 7.6 s of the step that is taken apart and 0.55 s
# of each other, where three traced steps of 20 evaluations took 4.6 s to close.
_DETAILED_STEP = 5.0
_LIGHT_STEP = 0.4


@dataclass(frozen=True)
class HostMemory:
    """Bytes of this process, and available and total bytes of the machine or container."""

    resident: int
    available: int
    total: int


def read_host_memory(cgroup: Path = CGROUP) -> HostMemory:
    """Read memory now. A control group's limit counts where there is one; droppable file pages count as available."""
    host = psutil.virtual_memory()
    available, total = int(host.available), int(host.total)
    limit = read_container_memory_limit(cgroup)
    used = _read_used(cgroup)
    if limit is not None and used is not None:
        total = min(total, limit)
        available = min(available, limit - used + _read_inactive_files(cgroup))
    return HostMemory(psutil.Process().memory_info().rss, max(0, available), total)


def _read_used(cgroup: Path) -> int | None:
    try:
        return int((cgroup / "memory.current").read_text())
    except OSError:
        return None


def _read_inactive_files(cgroup: Path) -> int:
    try:
        lines = (cgroup / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


class RecordingBudget:
    """Tracks the cost of recordings so far, and decides when one must not begin or must end.

    Attributes:
        spent_s: seconds that the loop stood still, and that its steps were slower by.
    """

    def __init__(
        self,
        overhead: float = OVERHEAD,
        max_memory: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        memory: Callable[[], HostMemory] = read_host_memory,
    ) -> None:
        self._overhead = overhead
        self._max_memory = max_memory
        self._clock = clock
        self._memory = memory
        self._began = clock()
        self._at_start = memory()
        self._looked = -math.inf
        self.spent_s = 0.0

    def check_begin(self, expected_s: float = 0.0) -> str:
        """The reason that a recording with this expected cost must not begin; "" where it may."""
        self._at_start = self._memory()
        return self._explain_low_memory(self._at_start) or self._explain_too_long(expected_s)

    def check_progress(self) -> str:
        """The reason that the current recording must end; "" where it may continue. Steps' costs are in `spent_s`."""
        now = self._memory()
        return self._explain_too_large(now) or self._explain_too_long(
            _CLOSING_S * (now.resident - self._at_start.resident)
        )

    def check_memory(self) -> str:
        """The same in the middle of a step, for memory only: the step's time is known when it ends."""
        now_s = self._clock()
        if now_s - self._looked < _PERIOD_S:
            return ""
        self._looked = now_s
        return self._explain_too_large(self._memory())

    def compute_wait_s(self, expected_s: float) -> float:
        """The seconds until a recording with this expected cost may begin, by time alone."""
        if self._overhead <= 0:
            return math.inf
        return max(0.0, (self.spent_s + expected_s) / self._overhead - (self._clock() - self._began))

    def compute_share(self, expected_s: float) -> float:
        """The share of time (`--overhead`) with which it might begin now."""
        return (self.spent_s + expected_s) / max(self._clock() - self._began, 1e-9)

    def _explain_too_large(self, now: HostMemory) -> str:
        allowed = self._max_memory
        if allowed is None:
            allowed, limit = _PART * self._at_start.available, "a quarter of the available memory (--max-memory)"
        else:
            limit = f"--max-memory {format_bytes(allowed)}"
        needed = _CLOSING * (now.resident - self._at_start.resident)
        if needed > allowed:
            return f"it would have needed about {format_bytes(needed)} of memory, more than {limit}"
        return self._explain_low_memory(now, max(0.0, needed * (1 - 1 / _CLOSING)))

    def _explain_low_memory(self, now: HostMemory, needed: float = 0.0) -> str:
        reserve = min(_RESERVE * now.total, _MOST_RESERVED)
        if now.available - needed >= reserve:
            return ""
        return f"{format_bytes(now.available)} of {format_bytes(now.total)} system memory was left"

    def _explain_too_long(self, more_s: float) -> str:
        more_s = max(0.0, more_s)
        allowed = max(FLOOR_S, self._overhead * (self._clock() - self._began))
        if self.spent_s + more_s <= allowed:
            return ""
        costs = f"it took {format_seconds(self.spent_s)}" + (
            f" and needed about {format_seconds(more_s)} more" if more_s else ""
        )
        return (
            f"{costs}; recordings may take {format_seconds(allowed)} (--overhead "
            f"{format_percent(self._overhead, 0)}; at least {format_seconds(FLOOR_S)})"
        )


def estimate_memory_cost_s(trace_close_s: float, trace_steps: int, memory_steps: int) -> float:
    """The expected cost of recording memory, in seconds, from the time to close the trace; 0 without one."""
    if not trace_steps:
        return 0.0
    return trace_close_s / trace_steps * (_DETAILED_STEP + _LIGHT_STEP * (memory_steps + 1))
