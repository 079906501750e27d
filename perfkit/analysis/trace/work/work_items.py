"""The work of a trace as columns: times, ops, and FLOPs and bytes.

On a device a piece of work is a kernel, copy or fill, for the op that launched it; on a CPU it is an op that has a
cost, or one whose work no formula models.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.time.intervals import Intervals, merge_intervals
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.analysis.trace.work.inferred_calls import infer_calls
from perfkit.analysis.trace.work.kernel_load import KernelLoad, measure_kernel_load
from perfkit.analysis.trace.work.link_copies import find_link_copies
from perfkit.trace.compact_ints import Compact, compact_ints
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Category, Ints, Small
from perfkit.trace.ops.kernels import find_communication, is_compiled_region
from perfkit.trace.ops.ops import OpRole, Ops
from perfkit.trace.ops.traced_devices import EVERYTHING, Rows

Flags = NDArray[np.bool_]


class WorkKind(IntEnum):
    WORK = 0
    COMMUNICATION = 1
    COPY = 2  # between CPU and device, or between devices


@dataclass(frozen=True)
class WorkItems:
    """Columns, one row a piece of work, in the order of time.

    Attributes:
        event: the row in the trace.
        owner: row in `ops` of the op that it was done for, NONE where that is not known.
        call: index into `ops.calls` of the costed call it is part of, NONE where no formula models the work. Where the
            owner is not known, the call behind equal kernels elsewhere in the trace (see `inferred`).
        label: index into `ops.trace.names`: the op, or the piece itself where its op is not known or says nothing.
        kind: a `WorkKind`.
        busy_ns: what of start to end counts as its own; all of it on a device.
        step: index into the windows of the steps, NONE outside of all.
        device: row of `ops.devices`; 0 on a CPU.
        lane: index into `lanes`: (device, stream) on a device, thread on a CPU.
        critical: which lie on the critical path; None where that is not known.
    """

    ops: Ops
    windows: StepWindows
    on_device: bool
    event: Compact
    owner: Compact
    call: Compact
    label: Compact
    kind: NDArray[np.int8]
    start_ns: Ints
    end_ns: Ints
    busy_ns: Ints
    step: Compact
    device: Compact
    phase: Compact
    module: Compact
    lane: Compact
    lanes: tuple[tuple[int, str], ...]
    critical: Flags | None = None

    def __len__(self) -> int:
        return len(self.event)

    @cached_property
    def name(self) -> Small:
        """Index into `ops.trace.names` of the kernel's own name."""
        return self.ops.trace.name[self.event]

    def merge_spans(self, flags: Flags, rows: Rows = EVERYTHING) -> Intervals:
        """Merge the spans of some pieces, of those in some rows."""
        flags = flags[rows]
        return merge_intervals(self.start_ns[rows][flags], self.end_ns[rows][flags])

    def select_device(self, device: int) -> Rows:
        """The rows of a device, which those of its kernels are; all on a CPU."""
        return self.ops.devices.rows[device] if self.on_device else EVERYTHING

    def is_kind(self, kind: WorkKind) -> Flags:
        flags: Flags = self.kind == kind
        return flags

    @cached_property
    def has_unknown_time(self) -> Flags:
        """Mask pieces of ops of which a kernel has an impossible end: an op's cost is shared by time."""
        unknown = np.zeros(len(self), np.bool_)
        if self.on_device and len(self.ops.overruns.kernel):
            unknown[self.ops.overruns.kernel] = True
            unknown |= (self.owner != NONE) & np.isin(self.owner, self.owner[unknown])
        return unknown

    @cached_property
    def computes(self) -> Flags:
        """Mask pieces that compute: on a device kernels, without copies and fills; communication never does."""
        flags: Flags = self.kind == WorkKind.WORK
        return flags & (self.ops.trace.category[self.event] == Category.KERNEL) if self.on_device else flags

    @cached_property
    def computing_spans(self) -> tuple[Intervals, ...]:
        """When each device computes; of a CPU when its ops do."""
        devices = range(len(self.ops.devices) if self.on_device else 1)
        return tuple(self.merge_spans(self.computes, self.select_device(index)) for index in devices)

    @cached_property
    def has_strides(self) -> bool:
        """True if the trace records strides; tensors count as contiguous where it does not."""
        return any(signature.strides for signature in self.ops.trace.signatures)

    @cached_property
    def load(self) -> KernelLoad:
        """How far each piece fills the device."""
        return measure_kernel_load(self.ops.trace, self.event)

    @cached_property
    def inferred(self) -> Flags:
        """Mask pieces whose call is inferred from equal kernels, because their own op was not recorded."""
        flags: Flags = (self.owner == NONE) & (self.call != NONE)
        return flags


def collect_work_items(ops: Ops, windows: StepWindows, critical: Ints | None = None) -> WorkItems:
    """Collect all work of a trace: kernels where devices were traced, else ops.

    `critical` are the rows of kernels that lie on the critical path, None where that is not known.
    """
    if not ops.trace.has_device_events:
        return _collect_host_work(ops, windows)
    work = _collect_device_work(ops, windows)
    return work if critical is None else replace(work, critical=np.isin(np.arange(len(work)), critical))


def _collect_device_work(ops: Ops, windows: StepWindows) -> WorkItems:
    trace, kernels = ops.trace, ops.kernels
    event, owner = kernels.event, ops.kernel_owner
    kind = np.full(len(event), WorkKind.WORK, np.int8)
    kind[find_link_copies(trace, event)] = WorkKind.COPY
    kind[np.isin(event, find_communication(trace))] = WorkKind.COMMUNICATION
    linked = owner != NONE
    costed = linked & (kind == WorkKind.WORK) & (_take_rows(ops.role, owner, -1) == OpRole.COSTED)
    own = trace.name[event]
    op_name = np.where(linked, trace.name[_take_rows(ops.event, owner, 0)], NONE)
    start, end = trace.start_ns[event], trace.end_ns[event]
    is_graph = mark_named(trace, ops.event, is_compiled_region)
    lanes, lane = _find_streams(ops)
    call = np.where(costed, _take_rows(ops.call, owner, NONE), NONE)
    return WorkItems(
        ops=ops,
        windows=windows,
        on_device=True,
        event=event,
        owner=owner,
        call=compact_ints(
            infer_calls(own, trace.geometry[event], lane, end - start, kind == WorkKind.WORK, owner, call)
        ),
        # Kernels of one compiled graph share its range, which is less specific than their names.
        label=compact_ints(np.where(linked & ~np.append(is_graph, False)[owner], op_name, own)),
        kind=kind,
        start_ns=start,
        end_ns=end,
        busy_ns=end - start,
        step=compact_ints(windows.find_windows(start)),
        device=ops.devices.of,
        phase=ops.kernel_phase,
        module=_take_rows(ops.module, owner, NONE),
        lane=lane,
        lanes=lanes,
    )


def _collect_host_work(ops: Ops, windows: StepWindows) -> WorkItems:
    """Collect ops that work, and process group threads from the start of a collective to its end."""
    trace = ops.trace
    rows = np.flatnonzero(np.isin(ops.role, [int(OpRole.COSTED), int(OpRole.UNMODELED), int(OpRole.COMMUNICATION)]))
    exchanges = find_communication(trace)
    event = np.concatenate((ops.event[rows], exchanges))
    owner = np.concatenate((rows, np.full(len(exchanges), NONE)))
    order = np.argsort(event, kind="stable")
    event, owner = compact_ints(event[order]), compact_ints(owner[order])
    role = _take_rows(ops.role, owner, OpRole.COMMUNICATION)
    exchanging = role == OpRole.COMMUNICATION
    start, end = trace.start_ns[event], trace.end_ns[event]
    threads, lane = np.unique(trace.thread[event], return_inverse=True)
    return WorkItems(
        ops=ops,
        windows=windows,
        on_device=False,
        event=event,
        owner=owner,
        call=compact_ints(np.where(exchanging, NONE, _take_rows(ops.call, owner, NONE))),
        label=trace.name[event],
        kind=np.where(exchanging, WorkKind.COMMUNICATION, WorkKind.WORK).astype(np.int8),
        start_ns=start,
        end_ns=end,
        busy_ns=np.where(role == OpRole.UNMODELED, _take_rows(ops.self_ns, owner, 0), end - start),
        step=compact_ints(windows.find_windows(start)),
        device=np.zeros(len(event), np.int8),
        phase=_take_rows(ops.phase, owner, NONE),
        module=_take_rows(ops.module, owner, NONE),
        lane=compact_ints(lane),
        lanes=tuple((NONE, " ".join(trace.threads[thread])) for thread in threads.tolist()),
    )


def _find_streams(ops: Ops) -> tuple[tuple[tuple[int, str], ...], Ints]:
    """The streams that kernels ran on: (device, stream). Traces that number none have a thread for each."""
    trace, event, devices = ops.trace, ops.kernels.event, ops.devices
    untold = trace.stream[event] == NONE
    groups = group_rows(devices.of, trace.stream[event], np.where(untold, trace.thread[event], NONE))
    names = []
    for first in groups.first.tolist():
        row, device = event[first], int(devices.of[first])
        stream = " ".join(trace.threads[int(trace.thread[row])]) if untold[first] else str(int(trace.stream[row]))
        process = f" of process {devices.process[device]}" if devices.process[device] else ""
        names.append((devices.number[device], f"{stream}{process}"))
    return tuple(names), groups.of


def _take_rows(column: Compact, rows: Compact, otherwise: int) -> Compact:
    """The column's values at some rows, `otherwise` where the row is NONE."""
    extended: Compact = np.append(column, np.asarray(otherwise, column.dtype))  # NONE (-1) takes the value at the end
    return extended[rows]
