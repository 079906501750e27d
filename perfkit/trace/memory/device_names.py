"""Devices by c10's numbers, in torch's notation: `cpu`, `cuda:0`, `xpu:1`."""

import numpy as np

from perfkit.trace.model import NONE, Ints, MemoryEvents

CPU = 0

# c10::DeviceType. ROCm traces use HIP (6), where torch itself names the devices `cuda`.
_NAMES = {
    CPU: "cpu", 1: "cuda", 6: "cuda", 8: "maia", 9: "xla", 10: "vulkan", 11: "metal", 12: "xpu", 13: "mps", 14: "meta",
    15: "hpu", 16: "ve", 17: "lazy", 18: "ipu", 19: "mtia", 20: "privateuseone",
}  # fmt: skip


def format_device_name(kind: int, index: int) -> str:
    name = _NAMES.get(kind, f"device type {kind}")
    return name if kind == CPU or index == NONE else f"{name}:{index}"


def group_by_device(memory: MemoryEvents) -> list[Ints]:
    """Group events by device, in order of time, the CPU last. Its index has no meaning."""
    index = np.where(memory.device_type == CPU, 0, memory.device.astype(np.int64) + 1)
    key = memory.device_type.astype(np.int64) * (int(index.max(initial=0)) + 1) + index
    distinct = np.unique(key).tolist()
    return [np.flatnonzero(key == device) for device in sorted(distinct, key=lambda device: (device == CPU, device))]


def get_device_name(memory: MemoryEvents, event: int) -> str:
    return format_device_name(int(memory.device_type[event]), int(memory.device[event]))
