"""Adds allocations that torch's profiler omits from its event tree: on a GPU, outside any range.

The tree's roots are CPU events only (torch/csrc/autograd/profiler_kineto.cpp, `materializeOpEvents`). Allocations and
frees of autograd's GPU thread between its nodes, or without recorded ops, have no enclosing range. The written trace
has all of them.
"""

from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import torch

from perfkit.devices.accelerator import CPU, CUDA, XPU, is_cpu
from perfkit.instruments.memory.profiler_events import ProfiledAllocation, RecordedEvents

_NAME = b'"[memory]"'
_DEVICES = {0: CPU.type, 1: CUDA.type, 12: XPU.type}  # c10/core/DeviceType.h; ROCm's torch writes CUDA's
_NO_THREAD = 0  # torch counts threads from 1, and the trace has the system's numbers


class _Arguments(msgspec.Struct, rename="pascal"):
    bytes: int
    addr: int
    total_allocated: int = msgspec.field(name="Total Allocated")
    device_type: int = msgspec.field(name="Device Type")
    device_id: int = msgspec.field(name="Device Id")


class _Instant(msgspec.Struct):
    ts: Decimal  # microseconds with three decimals, which a float would round
    args: _Arguments


class _WrittenTrace(msgspec.Struct, rename="camel"):
    trace_events: list[msgspec.Raw]
    base_time_nanoseconds: int = 0


def add_unscoped(recorded: RecordedEvents, result: Any) -> RecordedEvents:
    """`recorded`, from the tree of `result` (of `_disable_profiler`), with the omitted allocations."""
    if all(is_cpu(event.device) for event in recorded.allocations):
        return recorded
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        result.save(str(path))
        trace_events = read_written_allocations(path.read_bytes())
    scoped = set(map(_make_identity, recorded.allocations))
    unscoped = [event for event in trace_events if _make_identity(event) not in scoped]
    allocations = sorted((*recorded.allocations, *unscoped), key=lambda event: event.time_ns)
    return recorded._replace(allocations=allocations)


def read_written_allocations(text: bytes) -> list[ProfiledAllocation]:
    """Allocations and frees of a written trace, without their context."""
    trace = msgspec.json.decode(text, type=_WrittenTrace)
    instant = msgspec.json.Decoder(_Instant)
    events = (instant.decode(event) for event in trace.trace_events if _NAME in bytes(event))
    return [
        _build_allocation(event, trace.base_time_nanoseconds) for event in events if event.args.device_type in _DEVICES
    ]


def _build_allocation(event: _Instant, base_ns: int) -> ProfiledAllocation:
    kind, index = _DEVICES[event.args.device_type], event.args.device_id
    return ProfiledAllocation(
        time_ns=base_ns + int(event.ts * 1000),
        thread=_NO_THREAD,
        address=event.args.addr,
        size=event.args.bytes,
        device=torch.device(kind) if index < 0 else torch.device(kind, index),
        allocated=event.args.total_allocated,
        op="",
        node="",
        call=0,
        sequence=-1,
        line="",
        inputs=(),
    )


def _make_identity(event: ProfiledAllocation) -> tuple[int, int, int]:
    return event.time_ns, event.address, event.size
