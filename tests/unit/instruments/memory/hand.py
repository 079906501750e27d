"""Events of a profiler written by hand, at times in nanoseconds that can be read off."""

import torch

from perfkit.core.allocations import NONE
from perfkit.core.record.trace_marks import MARK_PREFIX, PHASES
from perfkit.instruments.memory.allocation_places import AllocationPlace
from perfkit.instruments.memory.profiler_events import MarkedRange, ProfiledAllocation, RecordedEvents, TensorUse

CPU = torch.device("cpu")
NOWHERE = AllocationPlace(step=NONE, phase=NONE, visit=0, turn=0, module="", sharding="")


def made(time: int, address: int, size: int, op: str = "", **more: object) -> ProfiledAllocation:
    """An allocation; with a negative size a free."""
    fields: dict[str, object] = {
        "thread": 1, "device": CPU, "allocated": 0, "node": "", "call": time, "sequence": -1, "line": "", "inputs": (),
    }  # fmt: skip
    return ProfiledAllocation(time_ns=time, address=address, size=size, op=op, **{**fields, **more})  # type: ignore[arg-type]


def use(time: int, address: int, tensor: int, *shape: int, dtype: torch.dtype = torch.float32) -> TensorUse:
    return TensorUse(time, address, tensor, shape, dtype)


def recorded(
    allocations: list[ProfiledAllocation], uses: list[TensorUse] | None = None, **more: object
) -> RecordedEvents:
    fields: dict[str, object] = {"ranges": [], "forwards": {}}
    return RecordedEvents(allocations=allocations, uses=uses or [], **{**fields, **more})  # type: ignore[arg-type]


def at(phase: str = "", *, step: int = NONE, turn: int = 1, module: str = "", sharding: str = "") -> AllocationPlace:
    number = PHASES.index(phase) if phase else NONE
    return AllocationPlace(step=step, phase=number, visit=turn, turn=turn, module=module, sharding=sharding)


def mark(name: str, start: int, end: int, thread: int = 1) -> MarkedRange:
    """`step#3`, `forward`, `module::h.0`; names with `FSDP::` as they are."""
    return MarkedRange(name if name.startswith("FSDP::") else MARK_PREFIX + name, thread, start, end)
