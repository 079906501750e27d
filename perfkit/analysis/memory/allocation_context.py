"""The events that began and ended each block, as columns over lifetimes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_lifetimes import Lifetimes
from perfkit.core.allocations import NONE, Allocations, Ints, Numbers
from perfkit.core.record.trace_marks import PHASES

Mask = NDArray[np.bool_]

DATA, FORWARD, BACKWARD, OPTIMIZER = (PHASES.index(name) for name in ("data", "forward", "backward", "optimizer"))


@dataclass(frozen=True)
class AllocationContext:
    """Blocks that were allocated by an event, one entry each.

    Attributes:
        row: which of the lives.
        born, died: events, `died` the number of events for a block that was never freed.
        size: bytes.
        phase, visit, op, module, line: of the allocation.
        freed_op, freed_phase: of the free; 0 and NONE where there was none. Of a block whose free was not seen there is
            no op, and the phase is that of the next allocation at its address.
        unwound: whether the exception of a failed request freed it; when the program would have is unknown.
        outlives: whether the block was alive when another phase began, never freed, or unwound.
        brief: whether it was freed before any other op, or the op in another module, allocated; False where the op
            is not known.
        within_op: whether it was `brief` and freed in an op of the same name.
        update: how many optimizer phases had begun when the block was allocated, `updates` when it was freed.
        next_update: the event with which the first optimizer phase after the block's birth begins; where there is
            none, one past the number of events.
    """

    row: Ints
    born: Ints
    died: Ints
    size: Ints
    phase: Numbers
    visit: Numbers
    op: Numbers
    module: Numbers
    line: Numbers
    freed_op: Numbers
    freed_phase: Numbers
    unwound: Mask
    outlives: Mask
    brief: Mask
    within_op: Mask
    update: Ints
    updates: Ints
    next_update: Ints


def build_allocation_context(allocations: Allocations, lives: Lifetimes) -> AllocationContext:
    row = np.flatnonzero(lives.born >= 0)
    born, died = lives.born[row], lives.died[row]
    # Of blocks that were never freed the last event stands in, and is overwritten below.
    end = np.minimum(died, len(allocations) - 1)
    op = allocations.op[born]
    freed = died < len(allocations)
    # An allocation at the same address ended the block where its free was not seen.
    freed_op = np.where(freed & (allocations.size[end] < 0), allocations.op[end], 0)
    unwound = freed & _find_frees_by_exceptions(allocations)[end]
    run = _number_op_runs(allocations)
    brief = freed & ~unwound & (op != 0) & (run[born] == run[end])
    begins = _find_optimizer_starts(allocations)
    update = np.searchsorted(begins, born, side="right")
    return AllocationContext(
        row=row,
        born=born,
        died=died,
        size=lives.size[row],
        phase=allocations.phase[born],
        visit=allocations.visit[born],
        op=op,
        module=allocations.module[born],
        line=allocations.line[born],
        freed_op=freed_op,
        freed_phase=np.where(freed & ~unwound, allocations.phase[end], NONE),
        unwound=unwound,
        outlives=~freed | unwound | (allocations.visit[end] != allocations.visit[born]),
        brief=brief,
        within_op=brief & (freed_op == op),
        update=update,
        updates=np.searchsorted(begins, died, side="right"),
        next_update=np.append(begins, len(allocations) + 1)[update],
    )


def _find_frees_by_exceptions(allocations: Allocations) -> Mask:
    """Mask the events after a failed request that come before the next allocation."""
    event = np.arange(len(allocations))
    failures = np.array(allocations.failures, np.int64)
    if not len(failures):
        return np.zeros(len(event), np.bool_)
    allocated = np.maximum.accumulate(np.where(allocations.size > 0, event, NONE))
    last = np.searchsorted(failures, event, side="right") - 1
    return (last >= 0) & (allocated < failures[last])


def _number_op_runs(allocations: Allocations) -> Ints:
    """The index of the run of allocations by one op in one module that contains an event; a free begins none."""
    allocated = np.flatnonzero(allocations.size > 0)
    keys = np.stack([column[allocated] for column in (allocations.op, allocations.module, allocations.visit)])
    begins = np.zeros(len(allocations), np.int64)
    if len(allocated):
        begins[allocated[1:]] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return np.cumsum(begins)


def _find_optimizer_starts(allocations: Allocations) -> Ints:
    """The first event of each optimizer phase, in the order of time."""
    events = np.flatnonzero(allocations.phase == OPTIMIZER)
    _, first = np.unique(allocations.visit[events], return_index=True)
    return np.sort(events[first])
