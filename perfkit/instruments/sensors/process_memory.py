"""Memory of the process and the device besides tensors: read before the model is built, and around the memory pass."""

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from perfkit.core.record.memory import DeviceMemoryState, ProcessMemory
from perfkit.core.record.quantity import NOT_MEASURED, Quantity, Unknown, make_measurement
from perfkit.devices.accelerator import get_accelerator, has_own_memory
from perfkit.instruments.sensors.sensors import Sensors
from perfkit.techniques.base.state import World

# proc(5): the sizes in `status`, and the value written to `clear_refs` to reset the peak.
PROC = Path("/proc/self")
_STATUS = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
_RESET_PEAK = "5"
_RESIDENT = "VmRSS"
_PEAK = "VmHWM"
_MAPPED = ("RssFile", "RssShmem")
# The kernel counts pages per CPU and sums them now and then: a reading may lag by this much.
_LAG_BYTES = 16 * 2**20


@dataclass
class ResidentPeak:
    """Result of `measure_peak_rss`, set when its body has ended.

    Attributes:
        peak: the largest resident set during the body.
        mapped: pages of files and shared memory in it at the end of the body.
    """

    peak: Quantity = NOT_MEASURED
    mapped: Quantity = NOT_MEASURED


def read_before_model(device: torch.device, sensors: Sensors | None, world: World) -> ProcessMemory:
    """Read the process's memory before the model is built: interpreter, libraries, and on a GPU context and process
    group."""
    on_gpu = has_own_memory(device)
    at_context = read_device_moment(device, sensors) if on_gpu else None
    at_group = _run_first_collective(device, sensors) if on_gpu and world.size > 1 else None
    when = "before the model was built"
    return ProcessMemory(
        before_model=_read_resident(PROC, when),
        mapped_before_model=_read_mapped(PROC, when),
        at_context=at_context,
        at_group=at_group,
    )


def read_device_moment(device: torch.device, sensors: Sensors | None) -> DeviceMemoryState:
    """Read the memory of a GPU now; waiting for the device creates the context if there is none."""
    runtime = get_accelerator(device).runtime
    runtime.synchronize(device)
    no_nvml = Unknown(reason="NVML is not available")
    memory = sensors.memory() if sensors else None
    return DeviceMemoryState(
        allocated=runtime.memory_allocated(device),
        reserved=runtime.memory_reserved(device),
        process=sensors.process_used_bytes(os.getpid()) if sensors else no_nvml,
        device=no_nvml
        if memory is None
        else make_measurement(memory.used, "bytes", "NVML, all processes of the device"),
        driver=no_nvml if memory is None else _build_reserved(memory.reserved),
    )


def _build_reserved(size: int | None) -> Quantity:
    if size is None:
        return Unknown(reason="this driver's NVML does not separate reserved from used memory")
    return make_measurement(size, "bytes", "NVML, reserved for the driver and the firmware")


@contextmanager
def measure_peak_rss(proc: Path = PROC) -> Iterator[ResidentPeak]:
    """Measure the largest resident set while the body runs, also where it ends with an error.

    What was freed before and is still held by the C library's allocator is given back to the system first, so that
    it is not counted. The kernel's own high-water mark is used, which misses nothing between two readings.
    """
    give_back_free_pages()
    reset = _reset_peak(proc)
    resident = ResidentPeak()
    try:
        yield resident
    finally:
        resident.mapped = _read_mapped(proc, "at the end of the memory pass")
        resident.peak = reset if isinstance(reset, Unknown) else _read_peak(proc)


def _run_first_collective(device: torch.device, sensors: Sensors | None) -> DeviceMemoryState:
    """The device after the first collective, for which NCCL sets up its communicator and buffers."""
    dist.all_reduce(torch.zeros(1, device=device))
    return read_device_moment(device, sensors)


def read_peak_resident_bytes(proc: Path = PROC) -> int | None:
    """Read the peak resident set so far, or since it was last reset; None if the system does not report it."""
    return _read_status(proc).get(_PEAK)


def _read_resident(proc: Path, when: str) -> Quantity:
    size = _read_status(proc).get(_RESIDENT)
    return _make_unknown(proc) if size is None else make_measurement(size, "bytes", f"resident set {when}")


def _read_mapped(proc: Path, when: str) -> Quantity:
    """Resident pages of files (code, mapped files) and of shared memory."""
    status = _read_status(proc)
    if not all(name in status for name in _MAPPED):
        return _make_unknown(proc)
    return make_measurement(
        sum(status[name] for name in _MAPPED), "bytes", f"resident pages of files and shared memory {when}"
    )


def _read_peak(proc: Path) -> Quantity:
    size = _read_status(proc).get(_PEAK)
    if size is None:
        return _make_unknown(proc)
    return make_measurement(size, "bytes", "peak resident set over the memory pass (the kernel's high-water mark)")


def _reset_peak(proc: Path) -> Unknown | None:
    """Count the peak from now on; the reason where the system cannot."""
    try:
        (proc / "clear_refs").write_text(_RESET_PEAK)
    except OSError as error:
        return Unknown(reason=f"the resident set's peak cannot be reset here ({error.strerror})")
    status = _read_status(proc)
    if status.get(_PEAK, 0) > status.get(_RESIDENT, 0) + _LAG_BYTES:
        return Unknown(reason="the system did not reset the resident set's peak")
    return None


def _read_status(proc: Path) -> dict[str, int]:
    """The sizes in `status` in bytes; empty on a system without it."""
    try:
        text = (proc / "status").read_text()
    except OSError:
        return {}
    return {name: int(size) * 1024 for name, size in _STATUS.findall(text)}


def _make_unknown(proc: Path) -> Unknown:
    return Unknown(reason=f"the system does not report it ({proc / 'status'}, Linux)")


def give_back_free_pages() -> None:
    """Return memory that was freed but is still held by the C library's allocator to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
    if trim is not None:
        trim(0)
