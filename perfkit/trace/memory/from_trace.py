"""Allocations from a trace: torch.profiler's `[memory]` events, with what the ops around them tell of each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.allocations import NONE, Allocations, Band, FailedRequest, Ints, Reserved, allocations
from perfkit.record import PHASES
from perfkit.trace.memory.blocks import blocks_of
from perfkit.trace.memory.consistency import bytes_before
from perfkit.trace.memory.devices import by_device, device_of
from perfkit.trace.memory.holders import holders
from perfkit.trace.memory.lines import lines_at
from perfkit.trace.memory.names import Table
from perfkit.trace.memory.spans import bands, phase_spans
from perfkit.trace.model import MemoryEvents, Trace
from perfkit.trace.modules import Modules
from perfkit.trace.ops import Ops, read_ops
from perfkit.trace.phases import PhaseRanges, Phases

_PROFILER = "allocation events of torch.profiler in the trace"
FROM_NOTHING = "what was allocated before the recording began is not in it"

Column = NDArray[np.int32]


def trace_allocations(trace: Trace) -> tuple[Allocations, ...]:
    """The allocations of each device that has any in a trace, GPUs first; none where no memory was recorded."""
    return ops_allocations(read_ops(trace)) if len(trace.memory) else ()


def ops_allocations(ops: Ops) -> tuple[Allocations, ...]:
    """The same of a trace whose ops were read."""
    memory = ops.trace.memory
    if not len(memory):
        return ()
    recorded = _recorded(ops)
    recordings = (_of_device(recorded, mine) for mine in by_device(memory))
    return tuple(recording for recording in recordings if recording is not None)


@dataclass(frozen=True)
class _Recorded:
    """The columns of all memory events of a trace, and what they are put over."""

    ops: Ops
    columns: dict[str, NDArray[np.generic]]
    names: tuple[str, ...]
    modules: Modules
    spans: Phases


def _recorded(ops: Ops) -> _Recorded:
    memory, table = ops.trace.memory, Table()
    modules, ranges = ops.calls_of_modules, PhaseRanges.from_trace(ops.trace)
    spans = phase_spans(ops, ranges)
    held = holders(ops, memory.thread, memory.time_ns, table)
    phase = np.append(ops.phase, NONE)[held.op]
    for known in (ranges.locate_phases(memory.thread, memory.time_ns), spans.locate_phases(memory.time_ns)):
        phase = np.where(phase == NONE, known, phase)
    # Times of steps on a device are no times of the host.
    step = np.full(len(memory), NONE) if ops.steps.on_device else ops.steps.locate_times(memory.time_ns)
    blocks = blocks_of(ops, held.op, table)
    columns: dict[str, NDArray[np.generic]] = {
        "phase": phase,
        "visit": np.searchsorted(spans.start_ns, memory.time_ns, side="right"),
        "step": np.append(ops.steps.number, NONE)[step],
        "op": np.where(memory.size > 0, held.made_by, held.freed_by),
        "module": _modules(ops, modules, held.op, table),
        "line": _lines(ops, held.op, table),
        "shape": blocks.shape,
        "dtype": blocks.dtype,
    }
    return _Recorded(ops, columns, table.all(), modules, spans)


def _modules(ops: Ops, modules: Modules, op: Ints, table: Table) -> Column:
    """Of the op around each event (in backward, of its forward op); outside of ops of the thread."""
    memory = ops.trace.memory
    of_op = np.append(ops.module, NONE)[op]
    path = np.where(of_op == NONE, modules.locate_modules(ops.trace, memory.thread, memory.time_ns), of_op)
    numbers = np.asarray([*map(table.number, modules.paths), 0], np.int32)
    paths: Column = numbers[path]  # NONE (-1) takes the 0 at the end
    return paths


def _lines(ops: Ops, op: Ints, table: Table) -> Column:
    """Of the program at each event; in backward, that of the forward op whose gradient is computed."""
    trace, memory = ops.trace, ops.trace.memory
    threads, times = memory.thread.copy(), memory.time_ns.copy()
    forward = np.append(ops.forward, NONE)[op]
    known = np.flatnonzero(forward != NONE)
    event = ops.event[forward[known]]
    threads[known], times[known] = trace.thread[event], trace.start_ns[event]
    return lines_at(trace, threads, times, table)


def _of_device(recorded: _Recorded, events: Ints) -> Allocations | None:
    """The events of one device; None where all of them are of no size."""
    memory = recorded.ops.trace.memory
    failed = events[memory.failed[events]]
    mine = events[~memory.failed[events] & (memory.size[events] != 0)]
    if not len(mine) and not len(failed):
        return None
    address, before = memory.address[mine], bytes_before(memory, mine)
    return allocations(
        device=device_of(memory, int(events[0])),
        source=_PROFILER if before is not None else f"{_PROFILER}; {FROM_NOTHING}",
        names=recorded.names,
        time_ns=memory.time_ns[mine],
        address=np.where(address == 0, NONE, address),
        size=memory.size[mine],
        unexplained_bytes=before or 0,
        reserved=_reserved(memory, mine),
        bands=_bands(recorded, mine),
        failed=_failed(recorded, int(failed[-1])) if len(failed) else None,
        **{name: column[mine] for name, column in recorded.columns.items()},
    )


def _bands(recorded: _Recorded, mine: Ints) -> tuple[Band, ...]:
    if not len(mine):
        return ()
    memory = recorded.ops.trace.memory
    peak = mine[int(np.cumsum(memory.size[mine]).argmax())]
    return bands(recorded.ops, recorded.spans, recorded.modules, int(memory.time_ns[peak]))


def _reserved(memory: MemoryEvents, mine: Ints) -> Reserved:
    """What the allocator's own count of reserved bytes tells of segments: how many bytes, not where."""
    change = np.diff(memory.reserved[mine], prepend=0)
    at = np.flatnonzero(change)
    return Reserved(at_event=at, address=np.full(len(at), NONE, np.int64), size=change[at])


def _failed(recorded: _Recorded, event: int) -> FailedRequest:
    memory, columns = recorded.ops.trace.memory, recorded.columns
    phase, step = int(columns["phase"][event]), int(columns["step"][event])
    op, module, line = (recorded.names[int(columns[name][event])] for name in ("op", "module", "line"))
    totals = (("allocated", int(memory.allocated[event])), ("reserved", int(memory.reserved[event])))
    held = " and ".join(f"{size:,} bytes {what}" for what, size in totals if size > 0)
    return FailedRequest(
        bytes=int(memory.size[event]) if memory.size[event] > 0 else None,
        message="torch.profiler recorded a request that failed" + (f", with {held}" if held else ""),
        phase="" if phase == NONE else PHASES[phase],
        step=None if step == NONE else step,
        op=op,
        module=module,
        line=line,
    )
