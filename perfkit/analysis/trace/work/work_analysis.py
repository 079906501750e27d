"""The work analysis of traced steps, shared by suites and traces."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.launches import Overlap
from perfkit.analysis.model.step import LostKernels, OpRow
from perfkit.analysis.trace.idle.idle_causes import IdleCauses, find_idle_causes
from perfkit.analysis.trace.roofline.device_roofs import DeviceRoofs
from perfkit.analysis.trace.roofline.roofline import TOLERANCE
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.time.data_fetching import find_fetches, merge_event_times
from perfkit.analysis.trace.time.grouping import RowGroups, group_rows
from perfkit.analysis.trace.time.intervals import EMPTY, Intervals, clip_intervals, measure_length
from perfkit.analysis.trace.time.launch_queue import LaunchQueue, build_launch_queue
from perfkit.analysis.trace.time.lost_kernels import count_lost_kernels
from perfkit.analysis.trace.time.step_windows import StepWindows, find_step_windows
from perfkit.analysis.trace.time.unknown_events import find_unknown_time
from perfkit.analysis.trace.time.wall_time_split import TimeSplit
from perfkit.analysis.trace.work.collective_messages import CollectiveMessages, collect_messages
from perfkit.analysis.trace.work.exposed_time import measure_overlap
from perfkit.analysis.trace.work.group_totals import build_roofline_dot, sum_groups
from perfkit.analysis.trace.work.roofline_groups import RooflineGroups, count_parts, place_groups
from perfkit.analysis.trace.work.split_time import assign_categories, split_windows
from perfkit.analysis.trace.work.work_item_costs import WorkItemCosts, compute_item_costs
from perfkit.analysis.trace.work.work_items import Flags, WorkItems, collect_work_items
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.counters.match_counters import CounterColumns
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.kernels import is_compiled_kernel
from perfkit.trace.ops.ops import Ops
from perfkit.trace.steps.phases import PhaseIntervals, find_phases


def drop_impossible_estimates(costs: WorkItemCosts, pieces: WorkItems, roofs: DeviceRoofs) -> WorkItemCosts:
    """The costs without estimates above the memory's bandwidth, judged by all calls of a kind together; of several
    kinds of device, that of the fastest memory.

    A cache may be faster; but then the estimate tells nothing of the memory.
    """
    bandwidths = [ceiling.value for own in roofs.kinds if (ceiling := own.find_bandwidth()) is not None]
    if not bandwidths or not costs.estimated.any():
        return costs
    chosen = np.flatnonzero(costs.estimated)
    call = pieces.call[chosen]
    moved, busy_ns = (np.bincount(call, column[chosen]) for column in (costs.bytes, pieces.busy_ns))
    too_fast = moved > TOLERANCE * max(bandwidths) * busy_ns / 1e9
    dropped = np.zeros(len(pieces), np.bool_)
    dropped[chosen] = too_fast[call]
    return replace(
        costs,
        bytes=np.where(dropped, np.nan, costs.bytes),
        most_bytes=np.where(dropped, np.nan, costs.most_bytes),
        estimated=costs.estimated & ~dropped,
    )


class DeviceTime(NamedTuple):
    """The time of one device: the split of its windows, its idle time by cause, and what of its work overlaps."""

    split: TimeSplit
    idle: IdleCauses
    overlap: Overlap


@dataclass(frozen=True)
class WorkAnalysis:
    """The work of a trace, costed, grouped and placed, and its time split.

    Attributes:
        exchanged: what collectives among the pieces exchanged.
        category: for each piece what bounds it, as an index into `time_split.DEVICE_CATEGORIES`.
        waiting: when the devices had something queued; None on a CPU.
        fetching: when the loop waited for data.
        devices: a row for each of `ops.devices`, one on a CPU; `critical_device` is the one that figures of the whole
            trace are of.
        lost: kernels that were launched and are not there; None on a CPU and where that is not known.
    """

    windows: StepWindows
    pieces: WorkItems
    exchanged: CollectiveMessages
    costs: WorkItemCosts
    by_kernel: RooflineGroups
    by_op: RooflineGroups
    category: NDArray[np.int8]
    waiting: LaunchQueue | None
    fetching: Intervals
    devices: tuple[DeviceTime, ...]
    roofs: DeviceRoofs
    critical_device: int = 0
    lost: LostKernels | None = None

    @property
    def split(self) -> TimeSplit:
        return self.devices[self.critical_device].split

    @property
    def idle(self) -> IdleCauses:
        return self.devices[self.critical_device].idle

    @property
    def placed(self) -> RooflineGroups:
        """The subjects of the roofline: kernels on a device, else ops."""
        return self.by_kernel if self.pieces.on_device else self.by_op

    @property
    def parts(self) -> int:
        """The divisor of figures per step."""
        return count_parts(self.pieces)

    @property
    def step_s(self) -> float:
        """The mean step; the whole trace where it has no steps."""
        return measure_length(self.windows.spans) / 1e9 / self.parts

    @property
    def within(self) -> Flags:
        """Mask pieces that began within the steps."""
        began_within: Flags = self.pieces.step != NONE
        return began_within

    @property
    def kernels_per_step(self) -> float:
        """Pieces of work that began in a step: the median over steps, of which the first and last may hold others'."""
        return float(np.median(np.bincount(self.pieces.step[self.within], minlength=self.parts)))


def analyze_work(
    ops: Ops,
    roofs: Roofs | DeviceRoofs,
    counters: CounterColumns | None = None,
    critical: Ints | None = None,
    *,
    critical_device: int = 0,
    idle: Sequence[IdleCauses] = (),
    windows: StepWindows | None = None,
) -> WorkAnalysis:
    """Cost, group and place all work of a trace, and split the time of its steps; `critical` as `collect_work_items`
    takes it, `idle` that of each device and `windows` those of the steps, if already known.
    """
    kinds = roofs if isinstance(roofs, DeviceRoofs) else DeviceRoofs((roofs,))
    spans = find_step_windows(ops) if windows is None else windows
    work = collect_work_items(ops, spans, critical)
    exchanged = collect_messages(work)
    costs = drop_impossible_estimates(
        compute_item_costs(work, exchanged.get_message_bytes(), counters, kinds.kinds[0].fp32), work, kinds
    )
    by_op = place_groups(work, costs, _group_ops(work, kinds), kinds, by_op=True)
    by_kernel = place_groups(work, costs, _group_kernels(work, kinds), kinds, by_op=False)
    category = assign_categories(by_kernel if work.on_device else by_op)
    waiting = build_launch_queue(ops) if work.on_device else None
    lost = count_lost_kernels(ops, spans) if work.on_device else None
    some_lost = lost is not None and lost.matters
    fetching = merge_event_times(ops.trace, find_fetches(ops.trace))
    unknown = EMPTY if work.on_device else find_unknown_time(ops, spans.spans)
    devices = tuple(
        DeviceTime(
            replace(
                split_windows(work, category, waiting, fetching, unknown, work.select_device(index), causes.beside),
                are_bounds=some_lost,
            ),
            causes,
            measure_overlap(work, count_parts(work), index),
        )
        for index, causes in enumerate(idle or find_idle_causes(ops, spans, waiting))
    )
    return WorkAnalysis(
        spans,
        work,
        exchanged,
        costs,
        by_kernel,
        by_op,
        category,
        waiting,
        fetching,
        devices,
        kinds,
        critical_device,
        lost,
    )


def _group_kernels(work: WorkItems, kinds: DeviceRoofs) -> RowGroups:
    """Pieces of one kernel for one call in one phase, on one kind of device."""
    within = (work.step != NONE).astype(np.int64)
    op = np.where(work.owner == NONE, NONE, work.label)
    untimed = work.has_unknown_time.astype(np.int8)
    kind = kinds.find_kinds(work.device)
    return group_rows(work.name, op, work.call, work.phase, work.kind, within, untimed, kind)


def _group_ops(work: WorkItems, kinds: DeviceRoofs) -> RowGroups:
    """Group pieces of one call in one phase and module, on one kind of device; on a device, all without an op form one
    group, except for generated kernels, whose names identify their work."""
    within = (work.step != NONE).astype(np.int64)
    generated = mark_named(work.ops.trace, work.event, is_compiled_kernel)
    op = np.where(work.on_device & (work.owner == NONE) & ~generated, NONE, work.label)
    untimed = work.has_unknown_time.astype(np.int8)
    kind = kinds.find_kinds(work.device)
    return group_rows(op, work.call, work.phase, work.module, work.kind, within, untimed, kind)


def summarize_step(engine: WorkAnalysis) -> list[OpRow]:
    """Dots of the whole step and of each phase, of the critical device: its roofs are above them."""
    work, by_op = engine.pieces, _place_critical_ops(engine)
    within = (work.step[by_op.first] != NONE) & (work.device[by_op.first] == engine.critical_device)
    name = "step" if engine.windows.are_steps else "trace"
    result = build_roofline_dot(
        name, name, sum_groups(by_op, np.flatnonzero(within)), engine.step_s, engine.step_s, engine.parts
    )
    marked = find_phases(work.ops.trace)
    for number, phase in enumerate(PHASES):
        mine = sum_groups(by_op, np.flatnonzero(within & (work.phase[by_op.first] == number)))
        result += build_roofline_dot(
            "phase", phase, mine, _measure_phase_s(engine, number, marked), engine.step_s, engine.parts
        )
    return result


def _place_critical_ops(engine: WorkAnalysis) -> RooflineGroups:
    """The groups of ops, each of one device."""
    if len(engine.devices) == 1:
        return engine.by_op
    groups = group_rows(engine.by_op.groups.of, engine.pieces.device)
    return place_groups(engine.pieces, engine.costs, groups, engine.roofs, by_op=True)


def _measure_phase_s(engine: WorkAnalysis, phase: int, ranges: PhaseIntervals) -> float:
    """Measure phases: on a device the time with a kernel of the phase running, on a CPU its marked range."""
    work = engine.pieces
    if work.on_device or not len(ranges):
        rows = work.select_device(engine.critical_device)
        busy = clip_intervals(work.merge_spans(engine.within & (work.phase == phase), rows), engine.windows.spans)
        return measure_length(busy) / 1e9 / engine.parts
    chosen = (engine.windows.find_windows(ranges.start_ns) != NONE) & (ranges.phase == phase)
    return int((ranges.end_ns[chosen] - ranges.start_ns[chosen]).sum()) / 1e9 / engine.parts
