"""Which device a trace was recorded on, as far as it tells."""

import numpy as np

from perfkit.devices.for_trace import TraceDevice
from perfkit.trace.read import DEVICE_CATEGORIES, Trace


def trace_device(trace: Trace) -> TraceDevice:
    """The device that did most of the work; a CPU where the trace has no work on a device."""
    if not trace.has_device_events:
        return TraceDevice("cpu")
    numbers = trace.device[trace.of(*DEVICE_CATEGORIES)]
    numbers = numbers[numbers >= 0]
    busiest = int(np.bincount(numbers).argmax()) if len(numbers) and numbers.max() < 2**16 else 0
    names = set(trace.devices.values())
    name = trace.devices.get(busiest, names.pop() if len(names) == 1 else "")
    return TraceDevice(
        kind="cuda",
        name=name,
        units=_number(trace, busiest, "numSms"),
        memory_bytes=_number(trace, busiest, "totalGlobalMem"),
    )


def _number(trace: Trace, device: int, member: str) -> int | None:
    text = trace.properties.get(f"device {device} {member}", trace.properties.get(member, ""))
    return int(text) if text.isdecimal() and int(text) > 0 else None
