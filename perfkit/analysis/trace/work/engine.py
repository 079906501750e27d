"""The one engine behind a bench's traced step and the analysis of a foreign trace."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.step import LostKernels, OpRow
from perfkit.analysis.trace.intervals import clipped, length
from perfkit.analysis.trace.roofs import Roofs
from perfkit.analysis.trace.timeline import Split
from perfkit.analysis.trace.work.costs import PieceCosts, piece_costs
from perfkit.analysis.trace.work.estimates import possible
from perfkit.analysis.trace.work.fetching import fetches, when
from perfkit.analysis.trace.work.grouping import Groups, group
from perfkit.analysis.trace.work.launches import Queue, queue
from perfkit.analysis.trace.work.lost import lost_kernels
from perfkit.analysis.trace.work.messages import Messages, messages
from perfkit.analysis.trace.work.pieces import Flags, Pieces, pieces
from perfkit.analysis.trace.work.placed import Placed, parts_of, place
from perfkit.analysis.trace.work.split_time import categories, split_windows
from perfkit.analysis.trace.work.totals import dot, total
from perfkit.analysis.trace.work.windows import Windows, windows
from perfkit.record import PHASES
from perfkit.trace.counters.match import CounterColumns
from perfkit.trace.kernels import is_compiled_kernel
from perfkit.trace.naming import named
from perfkit.trace.ops import Ops
from perfkit.trace.phases import Phases, find_phases
from perfkit.trace.read import NONE, Ints


@dataclass(frozen=True)
class Engine:
    """The work of a trace, costed, grouped and placed, and its time split.

    Attributes:
        exchanged: what collectives among the pieces exchanged.
        category: for each piece what bounds it, as an index into `time_split.DEVICE_CATEGORIES`.
        waiting: when the device had something queued; None on a CPU.
        lost: kernels that were launched and are not there; None on a CPU and where that is not known.
    """

    windows: Windows
    pieces: Pieces
    exchanged: Messages
    costs: PieceCosts
    by_kernel: Placed
    by_op: Placed
    category: NDArray[np.int8]
    waiting: Queue | None
    split: Split
    lost: LostKernels | None = None

    @property
    def placed(self) -> Placed:
        """What each piece is held against: kernels on a device, without one ops."""
        return self.by_kernel if self.pieces.on_device else self.by_op

    @property
    def parts(self) -> int:
        """What figures per step are divided by."""
        return parts_of(self.pieces)

    @property
    def step_s(self) -> float:
        """The mean step; the whole trace where it has no steps."""
        return length(self.windows.spans) / 1e9 / self.parts

    @property
    def within(self) -> Flags:
        """Which pieces began within the steps."""
        began_within: Flags = self.pieces.step != NONE
        return began_within

    @property
    def kernels_per_step(self) -> float:
        """Pieces of work that began in a step: the median over steps, of which the first and last may hold others'."""
        return float(np.median(np.bincount(self.pieces.step[self.within], minlength=self.parts)))


def analyse_work(
    ops: Ops, roofs: Roofs, counters: CounterColumns | None = None, critical: Ints | None = None
) -> Engine:
    """Cost, group and place all work of a trace, and split the time of its steps; `critical` as `pieces` takes it."""
    spans = windows(ops)
    work = pieces(ops, spans, critical)
    exchanged = messages(work)
    costs = possible(piece_costs(work, exchanged.get_message_bytes(), counters, roofs.fp32), work, roofs)
    by_op = place(work, costs, _op_groups(work), roofs, by_op=True)
    by_kernel = place(work, costs, _kernel_groups(work), roofs, by_op=False)
    category = categories(by_kernel if work.on_device else by_op)
    waiting = queue(ops) if work.on_device else None
    split = split_windows(work, category, waiting, when(ops.trace, fetches(ops.trace)))
    lost = lost_kernels(ops, spans) if work.on_device else None
    if lost is not None and lost.matters:
        split = replace(split, are_bounds=True)
    return Engine(spans, work, exchanged, costs, by_kernel, by_op, category, waiting, split, lost)


def _kernel_groups(work: Pieces) -> Groups:
    """Pieces of one kernel for one call in one phase."""
    within = (work.step != NONE).astype(np.int64)
    op = np.where(work.owner == NONE, NONE, work.label)
    return group(work.name, op, work.call, work.phase, work.kind, within)


def _op_groups(work: Pieces) -> Groups:
    """Pieces for one call in one phase and module; on a device all that has no op together, but for generated kernels,
    whose names tell what they do."""
    within = (work.step != NONE).astype(np.int64)
    generated = named(work.ops.trace, work.event, is_compiled_kernel)
    op = np.where(work.on_device & (work.owner == NONE) & ~generated, NONE, work.label)
    return group(op, work.call, work.phase, work.module, work.kind, within)


def summary(engine: Engine) -> list[OpRow]:
    """Dots of the whole step and of each phase."""
    work, by_op = engine.pieces, engine.by_op
    within = work.step[by_op.first] != NONE
    name = "step" if engine.windows.are_steps else "trace"
    result = dot(name, name, total(by_op, np.flatnonzero(within)), engine.step_s, engine.step_s, engine.parts)
    marked = find_phases(work.ops.trace)
    for number, phase in enumerate(PHASES):
        mine = total(by_op, np.flatnonzero(within & (work.phase[by_op.first] == number)))
        result += dot("phase", phase, mine, _phase_s(engine, number, marked), engine.step_s, engine.parts)
    return result


def _phase_s(engine: Engine, phase: int, ranges: Phases) -> float:
    """Of a phase on a device the time in which a kernel of it ran; on a CPU that of its range if we marked it."""
    work = engine.pieces
    if work.on_device or not len(ranges):
        busy = clipped(work.merge_spans(engine.within & (work.phase == phase)), engine.windows.spans)
        return length(busy) / 1e9 / engine.parts
    chosen = (engine.windows.find_windows(ranges.start_ns) != NONE) & (ranges.phase == phase)
    return int((ranges.end_ns[chosen] - ranges.start_ns[chosen]).sum()) / 1e9 / engine.parts
