"""Other users of a GPU, as far as NVML reports them.

Processes are told apart by their ids. NVML gives those of the caller's pid namespace and leaves out processes that it
cannot name there (open-gpu-kernel-modules, `_gpuConvertPid`); older drivers give the ids of the host
(github.com/NVIDIA/nvidia-docker/issues/1483), and in some containers NVML lists nothing at all
(github.com/NVIDIA/nvidia-docker/issues/179). A process can be listed several times.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pynvml

from perfkit.devices.machine.nvml import find_handle, open_nvml

BUSY = 0.05  # share of time in which some kernel ran, before anything of ours did
HOST_NAMESPACE = "pid:[4026531836]"  # the kernel's PROC_PID_INIT_INO (include/linux/proc_ns.h)


class GpuUse(NamedTuple):
    """`busy` says what else uses the device; `unknown` says what could not be found out, and why.

    A device that was seen to be idle has neither.
    """

    busy: str = ""
    unknown: str = ""


def find_gpu_use(uuid: str) -> GpuUse:
    """Find other users of the device with this UUID (as torch reports it); this process must have a context on it."""
    try:
        with open_nvml():
            return _query_use(uuid)
    except pynvml.NVMLError as error:
        return GpuUse(unknown=f"NVML does not report it ({error})")


def _query_use(uuid: str) -> GpuUse:
    handle = find_handle(uuid)
    running = _read_utilization(handle)
    if running is not None and running > BUSY:
        return GpuUse(busy=f"utilization was {running:.0%} before the measurement")
    use = judge_processes(_list_computing_pids(handle), read_own_pids(), contained=is_in_container())
    drawing = _list_drawing_pids(handle) - read_own_pids()
    # A desktop that stands still takes next to nothing, and most machines with a screen have one.
    return GpuUse(unknown=f"{_format_processes(len(drawing))} drawing with it") if drawing and not any(use) else use


def judge_processes(listed: frozenset[int], own: frozenset[int], *, contained: bool) -> GpuUse:
    """Judge the process ids on a device, given the ids that may be this process.

    `contained` says that this process has another pid namespace than the host.
    """
    others = listed - own
    if not listed:
        return GpuUse(unknown="NVML lists no process, not even this one: in a container it cannot see others")
    if others == listed and contained:
        # The ids are the host's, and one of them is ours.
        if len(listed) > 1:
            return GpuUse(busy=f"{_format_processes(len(listed) - 1)} on it (one of {len(listed)} is this one)")
        return GpuUse(unknown="NVML lists one process by the host's process id, possibly this one")
    if others:
        return GpuUse(
            busy=f"{_format_processes(len(others))} on it ({', '.join(str(pid) for pid in sorted(others)[:8])})"
        )
    if contained:
        return GpuUse(unknown="NVML lists only this container's processes, and there is no other")
    return GpuUse()


def read_own_pids(status: Path = Path("/proc/self/status")) -> frozenset[int]:
    """The ids of this process in its pid namespace and in those above, as far as /proc shows them."""
    try:
        match = re.search(r"^NSpid:\s*([\d\s]+)$", status.read_text(), re.MULTILINE)
    except OSError:
        match = None
    return frozenset({os.getpid(), *(int(pid) for pid in match[1].split())} if match else {os.getpid()})


def is_in_container(namespace: Path = Path("/proc/self/ns/pid")) -> bool:
    """True if this process has another pid namespace than the host; False if the system has none."""
    try:
        return str(namespace.readlink()) != HOST_NAMESPACE
    except OSError:
        return False


def _read_utilization(handle: Any) -> float | None:
    """The share of time in which some kernel ran lately; None for a MIG slice, which has no such counter."""
    try:
        return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
    except pynvml.NVMLError_NotSupported:
        return None


def _list_computing_pids(handle: Any) -> frozenset[int]:
    """The ids of processes that compute on the device, alone or through MPS."""
    alone = {entry.pid for entry in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    return _query_pids(pynvml.nvmlDeviceGetMPSComputeRunningProcesses, handle) | alone


def _list_drawing_pids(handle: Any) -> frozenset[int]:
    """The ids of processes that draw with the device."""
    return _query_pids(pynvml.nvmlDeviceGetGraphicsRunningProcesses, handle)


def _query_pids(query: Callable[[Any], Any], handle: Any) -> frozenset[int]:
    """The process ids that a query returns; none if the device or driver does not support it, such as a MIG slice."""
    try:
        return frozenset(entry.pid for entry in query(handle))
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return frozenset()


def _format_processes(count: int) -> str:
    return f"{count} other process{'es are' if count > 1 else ' is'}"
