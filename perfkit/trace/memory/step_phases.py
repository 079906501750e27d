"""Finds steps and phases of a snapshot's events from ranges, else from allocation stacks."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import NONE, Ints, TimeBand
from perfkit.core.record.trace_marks import MARK_PREFIX, PHASES, STEP_MARK
from perfkit.trace.annotations import match_phase

_STEP = re.compile(rf"(?:{re.escape(STEP_MARK)}|ProfilerStep ?)#(\d{{1,18}})")
_MARKED = {MARK_PREFIX + name: number for number, name in enumerate(PHASES)}
DATA, FORWARD, BACKWARD, OPTIMIZER = (PHASES.index(name) for name in ("data", "forward", "backward", "optimizer"))
_LEAST_BATCHES = 2


@dataclass(frozen=True)
class MarkedRanges:
    """Marked ranges in time: their numbers (of phases, of steps), when they began and ended."""

    number: Ints
    start_ns: Ints
    end_ns: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, int, int]]) -> "MarkedRanges":
        ordered = np.array(sorted(rows, key=lambda row: row[1]), np.int64).reshape(-1, 3)
        return cls(number=ordered[:, 0], start_ns=ordered[:, 1], end_ns=ordered[:, 2])

    def find_numbers(self, time_ns: Ints) -> Ints:
        """The number of the range that began last before each time, NONE where that has ended."""
        if not len(self.number):
            return np.full(len(time_ns), NONE, np.int64)
        last = np.searchsorted(self.start_ns, time_ns, side="right") - 1
        return np.where((last >= 0) & (time_ns <= self.end_ns[last]), self.number[last], NONE)


def parse_marked_ranges(annotations: object, device: int) -> tuple[MarkedRanges, MarkedRanges]:
    """The phases and steps marked by `external_annotations`, those of a device where it has its own."""
    rows = [row for row in annotations if isinstance(row, dict)] if isinstance(annotations, list) else []
    own = [row for row in rows if row.get("device", device) == device]
    phases, steps = [], []
    for name, start, end in _pair_ranges(own or rows):
        step = _STEP.fullmatch(name)
        phase = _MARKED.get(name, match_phase(name))
        if step:
            steps.append((int(step[1]), start, end))
        elif phase is not None:
            phases.append((phase, start, end))
    return MarkedRanges.from_rows(phases), MarkedRanges.from_rows(steps)


def _pair_ranges(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Names, starts and ends in ns of ranges that were both begun and ended; inner ranges of a name end first."""
    begun = defaultdict(list)
    ranges = []
    for row in rows:
        name, stage, time_us = row.get("name"), row.get("stage"), row.get("time_us")
        if not isinstance(name, str) or not isinstance(time_us, int):
            continue
        if stage == "START":
            begun[name].append(time_us * 1000)
        elif stage == "END" and begun[name]:
            ranges.append((name, begun[name].pop(), time_us * 1000))
    return ranges


def fill_phases(phase: Ints, telling: NDArray[np.bool_]) -> Ints:
    """Fill in phases of all events from those with evidence: events between two of one phase belong to it, and those
    between forward and backward (the loss) to forward; others stay unknown. Events without usable stacks (frees, whose
    stack may be their allocation's) take the phase before them."""
    position = np.arange(len(phase))
    before = np.maximum.accumulate(np.where(phase != NONE, position, NONE))
    after = np.minimum.accumulate(np.where(phase != NONE, position, len(phase))[::-1])[::-1]
    previous = np.where(before >= 0, phase[before], NONE)
    following = np.append(phase, NONE)[after]
    between = (previous == following) | ((previous == FORWARD) & (following == BACKWARD)) | ~telling
    return np.where((phase == NONE) & between, previous, phase)


def find_batches(phase: Ints, stack: Ints, telling: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Find allocations that move batches to the device, which no torch frame shows.

    They are in the program's own code and in no phase, before forward. So is what a program sets up, but that is once:
    a stack whose allocations come before at least two forward phases is one of the loop's.

    Args:
        phase: as `fill_phases` gives it.
        telling: as of `fill_phases`.
    """
    events = np.flatnonzero(telling)
    phase, stack = phase[events], stack[events]
    begins = np.flatnonzero(np.diff(phase, prepend=OPTIMIZER + 1))
    run = np.searchsorted(begins, np.arange(len(phase)), side="right") - 1
    before_forward = np.append(phase[begins[1:]] == FORWARD, False)
    chosen = np.flatnonzero((phase == NONE) & before_forward[run])
    pairs = np.unique(np.stack([stack[chosen], run[chosen]]), axis=1)
    stacks, runs = np.unique(pairs[0], return_counts=True)
    moving = np.zeros(len(telling), np.bool_)
    moving[events[chosen[np.isin(stack[chosen], stacks[runs >= _LEAST_BATCHES])]]] = True
    return moving


def count_steps_by_optimizer(phase: Ints) -> Ints:
    """Count steps from 0 without marks: each ends with the optimizer's phase. NONE without any."""
    if not (phase == OPTIMIZER).any():
        return np.full(len(phase), NONE, np.int64)
    ended = np.zeros(len(phase), np.int64)
    ended[1:] = (phase[:-1] == OPTIMIZER) & (phase[1:] != OPTIMIZER)
    return np.cumsum(ended)


def count_visits(phase: Ints, step: Ints) -> Ints:
    """The number of phases begun, at each event."""
    changed = (np.diff(phase, prepend=NONE) != 0) | (np.diff(step, prepend=NONE) != 0)
    return np.cumsum(changed & (phase != NONE))


def build_bands(phase: Ints, step: Ints, visit: Ints, time_ns: Ints) -> tuple[TimeBand, ...]:
    """Steps and phases over time, from their first event to the first of the next."""
    steps_and_phases = []
    for kind, number, run in (("step", step, step), ("phase", phase, visit * len(PHASES) + phase)):
        first = np.flatnonzero(np.append(True, np.diff(run) != 0)) if len(run) else np.empty(0, np.int64)
        ends = time_ns[np.append(first[1:], len(run) - 1)] if len(run) else first
        for value, start, end in zip(number[first].tolist(), time_ns[first].tolist(), ends.tolist(), strict=True):
            if value != NONE:
                name = PHASES[value] if kind == "phase" else str(value)
                steps_and_phases.append(TimeBand(kind=kind, name=name, start_ns=start, end_ns=end))
    return tuple(steps_and_phases)
