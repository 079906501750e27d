"""The devices that a trace was recorded on, where recorded."""

import numpy as np

from perfkit.analysis.trace.time.intervals import measure_length, merge_intervals
from perfkit.devices.accelerator import (
    CPU,
    CUDA,
    UNNAMED_GPU,
    find_accelerator,
    find_called_accelerator,
    find_kernel_accelerator,
)
from perfkit.devices.lookup.trace_ceilings import TraceDevice
from perfkit.trace.event_names import EventNames
from perfkit.trace.frameworks import TORCH
from perfkit.trace.model import DEVICE_CATEGORIES, NONE, Category, Trace
from perfkit.trace.ops.kernels import find_communication
from perfkit.trace.ops.ops import Ops


def identify_device(trace: Trace) -> TraceDevice:
    """The device that ran most kernels; `cpu` where the trace has no work on a device.

    Its kind is a word of `perfkit.devices.accelerator`, that of another recorded runtime (`mtia`), or `gpu`.
    """
    if not trace.has_device_events:
        return TraceDevice(CPU.kind)
    numbers = trace.device[trace.select_events(*DEVICE_CATEGORIES)]
    numbers = numbers[numbers >= 0]
    return _identify_number(trace, int(np.bincount(numbers).argmax()) if len(numbers) and numbers.max() < 2**16 else 0)


def identify_devices(ops: Ops) -> tuple[TraceDevice, ...]:
    """Each of `ops.devices`; of a single one, and of a CPU, what `identify_device` says."""
    trace = ops.trace
    if not trace.has_device_events or len(ops.devices) == 1:
        return (identify_device(trace),)
    return tuple(_identify_number(trace, number) for number in ops.devices.number)


def find_critical_device(ops: Ops) -> int:
    """The row of `ops.devices` whose time is that of the job: it computes longest in the steps.

    Communication does not count: it may be waiting for the device that is looked for.
    """
    devices, trace = ops.devices, ops.trace
    if len(devices) <= 1:
        return 0
    event = ops.kernels.event
    computes = (trace.category[event] == Category.KERNEL) & ~np.isin(event, find_communication(trace))
    in_steps = ops.kernel_step != NONE
    chosen = computes & in_steps if (computes & in_steps).any() else computes
    spent = []
    for index in range(len(devices)):
        mine = event[chosen & (devices.of == index)]
        spent.append(measure_length(merge_intervals(trace.start_ns[mine], trace.end_ns[mine])))
    return int(np.argmax(spent))


def _identify_number(trace: Trace, number: int) -> TraceDevice:
    names = set(trace.devices.values())
    name = trace.devices.get(number, names.pop() if len(names) == 1 else "")
    return TraceDevice(
        kind=_identify_kind(trace, name),
        name=name,
        units=_parse_property(trace, number, "numSms"),
        memory_bytes=_parse_property(trace, number, "totalGlobalMem"),
    )


def _identify_kind(trace: Trace, name: str) -> str:
    """The word for the kind of device.

    A device's name tells its kind, else the events of its runtime, the calls that launched its kernels, or their names.
    What tells none of these is taken for CUDA's if torch recorded it.
    """
    named = find_accelerator(name)
    if named is not None or trace.runtime:
        return trace.runtime if named is None else named.kind
    found = find_called_accelerator(_list_names(trace, Category.LAUNCH)) or find_kernel_accelerator(
        _list_names(trace, Category.KERNEL)
    )
    if found is not None:
        return found.kind
    return CUDA.kind if trace.framework == TORCH else UNNAMED_GPU


def _list_names(trace: Trace, category: Category) -> list[str]:
    names = EventNames.from_events(trace, trace.select_events(category))
    return [trace.names[index] for index in names.occurring]


def _parse_property(trace: Trace, device: int, member: str) -> int | None:
    text = trace.properties.get(f"device {device} {member}", trace.properties.get(member, ""))
    return int(text) if text.isdecimal() and int(text) > 0 else None
