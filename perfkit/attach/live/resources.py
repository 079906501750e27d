"""Reads the resources of a process and its device, once per log line, never during a step."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import torch

from perfkit.attach.host.guard import Guard
from perfkit.core.record.environment import DeviceSample
from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.sensors.sensors import open_device_sensors

STATM = Path("/proc/self/statm")  # proc(5): sizes in pages, the second is the resident set
NO_SAMPLE = DeviceSample(time_s=0.0)


class ProcessResources(NamedTuple):
    """None where unknown. CUDA allocator bytes are peaks since the process began, or since the program reset them:
    resetting them here would change what the program reads. `power_w` is the driver's mean over the last second or the
    current value, as in `DeviceSample`."""

    rss_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    utilization: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None


class SensorThread:
    """Reads sensors once per period in its own thread: NVML may take milliseconds to answer, during which ctypes
    releases the GIL.

    Attributes:
        latest: the last reading.
    """

    def __init__(self, sample: Callable[[float], DeviceSample], period_s: float) -> None:
        self.latest = NO_SAMPLE
        self._sample = sample
        self._period_s = period_s
        self._end = Event()
        self._guard = Guard(self._clear_latest, "reading the sensors")
        self._thread = Thread(target=self._read_repeatedly, name="perfkit sensors", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read no more; a reading that is under way is not waited for."""
        self._end.set()

    def _read_repeatedly(self) -> None:
        while not self._end.is_set():
            self._guard(self._read_once)
            self._end.wait(self._period_s)

    def _read_once(self) -> None:
        self.latest = self._sample(time.monotonic())

    def _clear_latest(self) -> None:
        self.latest = NO_SAMPLE
        self._end.set()


class ResourceReader:
    """Reads `ProcessResources` of this process and a device."""

    def __init__(self, device: torch.device, sensors: SensorThread | None = None, statm: Path = STATM) -> None:
        self._device = device
        self._sensors = sensors
        self._statm = statm

    def read(self) -> ProcessResources:
        sample = self._sensors.latest if self._sensors else NO_SAMPLE
        allocated, reserved = (
            self._read_allocator() if get_accelerator(self._device).has_memory_statistics else (None, None)
        )
        return ProcessResources(
            rss_bytes=read_resident_bytes(self._statm),
            allocated_bytes=allocated,
            reserved_bytes=reserved,
            utilization=sample.utilization,
            power_w=sample.power_w,
            temperature_c=sample.temperature_c,
        )

    def close(self) -> None:
        if self._sensors:
            self._sensors.close()

    def _read_allocator(self) -> tuple[int | None, int | None]:
        statistics = get_accelerator(self._device).runtime.memory_stats_as_nested_dict(self._device)
        if not statistics:  # CUDA is not initialized, or another allocator is in use, without statistics
            return None, None
        return statistics["allocated_bytes"]["all"]["peak"], statistics["reserved_bytes"]["all"]["peak"]


def open_reader(device: torch.device, period_s: float) -> ResourceReader:
    """Open the reader of a device, with its sensors where NVML supports it."""
    sensors = open_device_sensors(device)
    return ResourceReader(device, SensorThread(sensors.sample, period_s) if sensors else None)


def read_resident_bytes(statm: Path = STATM) -> int | None:
    """The resident set of this process; None where the system does not report it."""
    try:
        pages = int(statm.read_bytes().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
