"""The device that a trace was recorded on, where recorded."""

import re

import numpy as np

from perfkit.devices.trace_ceilings import TraceDevice
from perfkit.trace.model import DEVICE_CATEGORIES, Category, Trace

# A device's name tells its kind, else the events of its runtime or the calls that launched its kernels do; what tells
# none of these is taken for CUDA's.
_RUNTIMES = (
    ("rocm", re.compile(r"hip[A-Z]")),
    ("cuda", re.compile(r"cu(da)?[A-Z]")),
    ("xpu", re.compile(r"(ze|ur)[A-Z]")),
)
_NAMES = (("rocm", re.compile(r"AMD|Instinct|Radeon")), ("xpu", re.compile(r"Intel")))


def identify_device(trace: Trace) -> TraceDevice:
    """The device that ran most kernels; `cpu` where the trace has no work on a device.

    Its kind is `rocm` or `xpu` by names, that of another recorded runtime (`mtia`), else `cuda`.
    """
    if not trace.has_device_events:
        return TraceDevice("cpu")
    numbers = trace.device[trace.select_events(*DEVICE_CATEGORIES)]
    numbers = numbers[numbers >= 0]
    busiest = int(np.bincount(numbers).argmax()) if len(numbers) and numbers.max() < 2**16 else 0
    names = set(trace.devices.values())
    name = trace.devices.get(busiest, names.pop() if len(names) == 1 else "")
    return TraceDevice(
        kind=_identify_kind(trace, name),
        name=name,
        units=_parse_property(trace, busiest, "numSms"),
        memory_bytes=_parse_property(trace, busiest, "totalGlobalMem"),
    )


def _identify_kind(trace: Trace, name: str) -> str:
    """`cuda`, `rocm`, `xpu` or the word of another runtime."""
    by_name = next((kind for kind, pattern in _NAMES if pattern.search(name)), None)
    if by_name is not None or trace.runtime:
        return by_name or trace.runtime
    calls = [trace.names[index] for index in np.unique(trace.name[trace.select_events(Category.LAUNCH)]).tolist()]
    return next((kind for kind, pattern in _RUNTIMES if any(map(pattern.match, calls))), "cuda")


def _parse_property(trace: Trace, device: int, member: str) -> int | None:
    text = trace.properties.get(f"device {device} {member}", trace.properties.get(member, ""))
    return int(text) if text.isdecimal() and int(text) > 0 else None
