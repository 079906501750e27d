"""Builds allocations from a trace's `[memory]` events and the ops around them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import (
    NONE,
    Allocations,
    FailedRequest,
    Ints,
    ReservedSegments,
    TimeBand,
    build_allocations,
)
from perfkit.core.record.trace_marks import PHASES
from perfkit.cost.calls.op_call import OpCall
from perfkit.cost.outputs import infer_block_output
from perfkit.trace.memory.consistency import compute_bytes_before
from perfkit.trace.memory.device_names import CPU, get_device_name, group_by_device
from perfkit.trace.memory.holders import find_holders
from perfkit.trace.memory.phase_spans import build_bands, find_phase_spans
from perfkit.trace.memory.source_lines import find_lines
from perfkit.trace.memory.text_numbers import TraceTextNumbers
from perfkit.trace.model import MemoryEvents
from perfkit.trace.ops.module_calls import ModuleCalls
from perfkit.trace.ops.ops import Ops
from perfkit.trace.ops.signatures import parse_arguments
from perfkit.trace.steps.phases import PhaseIntervals, PhaseRanges


class BlockContents(NamedTuple):
    """Columns, one entry an event, of numbers in the table; 0 where nothing is certain, and for frees."""

    shape: NDArray[np.int32]
    dtype: NDArray[np.int32]


def infer_block_contents(ops: Ops, op: Ints, table: TraceTextNumbers) -> BlockContents:
    """`op` is the row of the innermost op around each memory event, NONE outside of all.

    Equal calls that allocated blocks of equal sizes are looked at once.
    """
    trace, memory = ops.trace, ops.trace.memory
    shape, dtype = np.zeros(len(memory), np.int32), np.zeros(len(memory), np.int32)
    asked = np.flatnonzero((op != NONE) & (memory.size > 0))
    asked = asked[trace.signature[ops.event[op[asked]]] != NONE]
    if not len(asked):
        return BlockContents(shape, dtype)
    event = ops.event[op[asked]]
    name, signature = trace.name[event], trace.signature[event]
    sizes, size = np.unique(memory.size[asked], return_inverse=True)
    calls, call = np.unique(name.astype(np.int64) * len(trace.signatures) + signature, return_inverse=True)
    kind = (call * len(sizes) + size) * 2 + (memory.device_type[asked] != CPU)
    kinds, of = np.unique(kind, return_inverse=True)
    outputs = np.zeros((len(kinds), 2), np.int32)
    counts, exact = np.zeros(len(kinds), np.int64), np.zeros(len(kinds), np.bool_)
    known: dict[int, OpCall | None] = {}
    for index, code in enumerate(kinds.tolist()):
        number = int(calls[code // 2 // len(sizes)])
        if number not in known:
            args = parse_arguments(trace.signatures[number % len(trace.signatures)])
            known[number] = None if args is None else OpCall(trace.names[number // len(trace.signatures)], args)
        this = known[number]
        block = None if this is None else infer_block_output(this, int(sizes[code // 2 % len(sizes)]), bool(code % 2))
        if block is not None:
            outputs[index] = table.number(str(list(block.output.shape))), table.number(block.output.dtype)
            counts[index], exact[index] = block.made, block.exact
    certain = _find_certain(op[asked], outputs[of], counts[of], exact[of])
    shape[asked], dtype[asked] = np.where(certain, outputs[of].T, 0)
    return BlockContents(shape, dtype)


def _find_certain(op: Ints, outputs: NDArray[np.int32], counts: Ints, exact: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The blocks that certainly hold an output: those of its exact size; larger ones if their op has no more blocks per
    output than it makes. Otherwise one of them is a workspace, and which one is unknown."""
    _, call = np.unique(np.column_stack([op, outputs]), axis=0, return_inverse=True)
    blocks = np.bincount(call.reshape(-1))[call.reshape(-1)]
    return exact | (blocks <= counts)


_PROFILER = "allocation events of torch.profiler in the trace"
FROM_NOTHING = "allocations before the recording began are missing"

Column = NDArray[np.int32]


def build_ops_allocations(ops: Ops) -> tuple[Allocations, ...]:
    """The allocations of each device that has any in a trace, GPUs first; none where no memory was recorded."""
    memory = ops.trace.memory
    if not len(memory):
        return ()
    recorded = _build_columns(ops)
    recordings = (_build_device_allocations(recorded, mine) for mine in group_by_device(memory))
    return tuple(recording for recording in recordings if recording is not None)


@dataclass(frozen=True)
class _MemoryColumns:
    """The columns of a trace's memory events, and the spans and ops around them."""

    ops: Ops
    columns: dict[str, NDArray[np.generic]]
    names: tuple[str, ...]
    modules: ModuleCalls
    spans: PhaseIntervals


def _build_columns(ops: Ops) -> _MemoryColumns:
    memory, table = ops.trace.memory, TraceTextNumbers()
    modules, ranges = ops.calls_of_modules, PhaseRanges.from_trace(ops.trace)
    spans = find_phase_spans(ops, ranges)
    holders = find_holders(ops, memory.thread, memory.time_ns, table)
    phase = np.append(ops.phase, NONE)[holders.op]
    for known in (ranges.locate_phases(memory.thread, memory.time_ns), spans.locate_phases(memory.time_ns)):
        phase = np.where(phase == NONE, known, phase)
    # Step times on a device are not CPU times.
    step = np.full(len(memory), NONE) if ops.steps.on_device else ops.steps.locate_times(memory.time_ns)
    blocks = infer_block_contents(ops, holders.op, table)
    columns: dict[str, NDArray[np.generic]] = {
        "phase": phase,
        "visit": np.searchsorted(spans.start_ns, memory.time_ns, side="right"),
        "step": np.append(ops.steps.number, NONE)[step],
        "op": np.where(memory.size > 0, holders.made_by, holders.freed_by),
        "module": _find_modules(ops, modules, holders.op, table),
        "line": _find_lines(ops, holders.op, table),
        "shape": blocks.shape,
        "dtype": blocks.dtype,
    }
    return _MemoryColumns(ops, columns, table.list_texts(), modules, spans)


def _find_modules(ops: Ops, modules: ModuleCalls, op: Ints, table: TraceTextNumbers) -> Column:
    """The module of the op around each event (in backward, of its forward op), else of the thread."""
    memory = ops.trace.memory
    of_op = np.append(ops.module, NONE)[op]
    path = np.where(of_op == NONE, modules.locate_modules(ops.trace, memory.thread, memory.time_ns), of_op)
    numbers = np.asarray([*map(table.number, modules.paths), 0], np.int32)
    paths: Column = numbers[path]  # NONE (-1) takes the 0 at the end
    return paths


def _find_lines(ops: Ops, op: Ints, table: TraceTextNumbers) -> Column:
    """The program line at each event; in backward, that of the forward op."""
    trace, memory = ops.trace, ops.trace.memory
    threads, times = memory.thread.copy(), memory.time_ns.copy()
    forward = np.append(ops.forward, NONE)[op]
    known = np.flatnonzero(forward != NONE)
    event = ops.event[forward[known]]
    threads[known], times[known] = trace.thread[event], trace.start_ns[event]
    return find_lines(trace, threads, times, table)


def _build_device_allocations(recorded: _MemoryColumns, events: Ints) -> Allocations | None:
    """Build the events of one device; None where all are empty."""
    memory = recorded.ops.trace.memory
    failed = events[memory.failed[events]]
    mine = events[~memory.failed[events] & (memory.size[events] != 0)]
    if not len(mine) and not len(failed):
        return None
    address, before = memory.address[mine], compute_bytes_before(memory, mine)
    return build_allocations(
        device=get_device_name(memory, int(events[0])),
        source=_PROFILER if before is not None else f"{_PROFILER}; {FROM_NOTHING}",
        names=recorded.names,
        time_ns=memory.time_ns[mine],
        address=np.where(address == 0, NONE, address),
        size=memory.size[mine],
        unexplained_bytes=before or 0,
        reserved=_build_reserved(memory, mine),
        bands=_build_bands(recorded, mine),
        failed=_build_failed_request(recorded, int(failed[-1])) if len(failed) else None,
        failures=tuple(np.searchsorted(mine, failed).tolist()),
        **{name: column[mine] for name, column in recorded.columns.items()},
    )


def _build_bands(recorded: _MemoryColumns, mine: Ints) -> tuple[TimeBand, ...]:
    if not len(mine):
        return ()
    memory = recorded.ops.trace.memory
    peak = mine[int(np.cumsum(memory.size[mine]).argmax())]
    return build_bands(recorded.ops, recorded.spans, recorded.modules, int(memory.time_ns[peak]))


def _build_reserved(memory: MemoryEvents, mine: Ints) -> ReservedSegments:
    """Build segments from the allocator's own count of reserved bytes: sizes, not places."""
    change = np.diff(memory.reserved[mine], prepend=0)
    at = np.flatnonzero(change)
    return ReservedSegments(at_event=at, address=np.full(len(at), NONE, np.int64), size=change[at])


def _build_failed_request(recorded: _MemoryColumns, event: int) -> FailedRequest:
    memory, columns = recorded.ops.trace.memory, recorded.columns
    phase, step = int(columns["phase"][event]), int(columns["step"][event])
    op, module, line = (recorded.names[int(columns[name][event])] for name in ("op", "module", "line"))
    totals = (("allocated", int(memory.allocated[event])), ("reserved", int(memory.reserved[event])))
    totals_text = " and ".join(f"{size:,} bytes {what}" for what, size in totals if size > 0)
    return FailedRequest(
        bytes=int(memory.size[event]) if memory.size[event] > 0 else None,
        message="torch.profiler recorded a request that failed" + (f", with {totals_text}" if totals_text else ""),
        phase="" if phase == NONE else PHASES[phase],
        step=None if step == NONE else step,
        op=op,
        module=module,
        line=line,
    )
