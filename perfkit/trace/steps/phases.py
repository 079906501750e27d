"""The phases of a step (data, forward, backward, optimizer): marked by perfkit, or found from ranges, nodes and ops."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.core.record.trace_marks import MARK_PREFIX, PHASES
from perfkit.trace.annotations import match_phase
from perfkit.trace.event_names import map_names, mark_named
from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.steps.steps import StepIntervals, find_intervals

_FORWARD, _BACKWARD, _OPTIMIZER = (PHASES.index(phase) for phase in ("forward", "backward", "optimizer"))

# Ops over lists of parameters, which nothing but optimizers and the clipping of gradients calls.
_OPTIMIZER_OPS = re.compile(r"aten::_foreach_\w+|aten::_fused_(adam|adamw|sgd|adagrad)_?|aten::_amp_\w+")


@dataclass(frozen=True)
class PhaseIntervals:
    """Marked ranges in the order of time; `phase` indexes `core.record.trace_marks.PHASES`."""

    phase: Ints
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.phase)

    def locate_phases(self, times: Ints) -> Ints:
        """For each time, the index in `PHASES`, NONE outside of all.

        Time decides, not the thread: backward runs on threads of its own while the marking thread waits for it.
        """
        interval = find_intervals(self.start_ns, self.end_ns, times)
        return np.where(interval == NONE, NONE, self.phase[interval]) if len(self) else interval


@dataclass(frozen=True)
class PhaseRanges:
    """Phases from ranges: `marked` are perfkit's; `events` and `phase` are others with a known name, used where perfkit
    marked none."""

    trace: Trace
    marked: PhaseIntervals
    events: Ints
    phase: Ints

    @classmethod
    def from_trace(cls, trace: Trace) -> "PhaseRanges":
        marked = find_phases(trace)
        nothing = np.empty(0, np.int64)
        return cls(trace, marked, *((nothing, nothing) if len(marked) else _find_ranges(trace, match_phase)))

    def locate_phases(self, threads: NDArray[np.int32], times: Ints) -> Ints:
        """For times on CPU threads, the phase by ranges, NONE elsewhere."""
        return self.marked.locate_phases(times) if len(self.marked) else self.find_around(threads, times)[0]

    def find_around(self, threads: NDArray[np.int32], times: Ints) -> tuple[Ints, Ints, Ints]:
        """For times on threads, the phase of the innermost range that names one, with its start and end."""
        if not len(self.events):
            nothing = np.full(len(times), NONE, np.int64)
            return nothing, nothing.copy(), nothing.copy()
        at = find_around_times(self.trace, self.events, threads, times)
        none, event = at == NONE, self.events[at]
        phase, start, end = self.phase[at], self.trace.start_ns[event], self.trace.end_ns[event]
        return np.where(none, NONE, phase), np.where(none, NONE, start), np.where(none, NONE, end)


def find_phases(trace: Trace) -> PhaseIntervals:
    """The phases that perfkit marked in a trace; empty where it marked none."""
    by_name = {MARK_PREFIX + phase: index for index, phase in enumerate(PHASES)}
    events, phases = _find_ranges(trace, by_name.get)
    return PhaseIntervals(phases, trace.start_ns[events], trace.end_ns[events])


def assign_op_phases(trace: Trace, event: Ints, node: Ints, steps: StepIntervals, ranges: PhaseRanges) -> Ints:
    """The phase of each op (rows in the order of time): index into `PHASES`, NONE where it is not known.

    Where we marked phases, those. Else, the innermost deciding: what runs beneath an autograd `node` is backward, what
    lies in a range whose name says so (`match_phase`) is of its phase, but for the forward passes that an optimizer
    calls itself. Then ops that only optimizers call are theirs, and the rest from the first op that records gradients
    up to backward is forward; all of it where nothing is trained.
    """
    starts = trace.start_ns[event]
    if len(ranges.marked):
        return ranges.marked.locate_phases(starts)
    phase, since, until = ranges.find_around(trace.thread[event], starts)
    within = node != NONE
    phase[within & ((phase == NONE) | (starts[node] >= since))] = _BACKWARD
    phase[_find_evaluations(trace, event, phase, since, until)] = _FORWARD
    if not len(event):
        return phase
    phase[(phase == NONE) & _mark_engine_ops(trace, event, within)] = _BACKWARD
    trained = bool((phase == _BACKWARD).any() or (phase == _OPTIMIZER).any())
    if trained:
        listed = mark_named(trace, event, lambda name: _OPTIMIZER_OPS.fullmatch(name) is not None)
        phase[(phase == NONE) & listed] = _OPTIMIZER
    # A trace without steps is taken as one.
    step = steps.locate_times(starts) if len(steps) else np.zeros(len(event), np.int64)
    rest = (phase == NONE) & (step != NONE)
    phase[_find_before_backward(trace, event, step, phase, rest) if trained else rest] = _FORWARD
    return phase


def _find_ranges(trace: Trace, phase_of_name: Callable[[str], int | None]) -> tuple[Ints, Ints]:
    """The ranges that have a phase by their name, in the order of time, and the phase of each."""
    ranges = trace.select_events(Category.RANGE, Category.OP)  # old versions wrote ranges as ops
    events, phases = map_names(trace, ranges, phase_of_name)
    return events, np.asarray([phases[name] for name in trace.name[events].tolist()], np.int64)


def _find_evaluations(trace: Trace, event: Ints, phase: Ints, since: Ints, until: Ints) -> NDArray[np.bool_]:
    """Find forward passes of closures: within an optimizer's range, from an op that records gradients to the next
    backward pass in the same range. An update records none."""
    starts = trace.start_ns[event]
    stepping = phase == _OPTIMIZER
    backward = np.append(starts[phase == _BACKWARD], np.iinfo(np.int64).max)
    recording = starts[stepping & (trace.sequence[event] != NONE)]
    if len(backward) == 1 or not len(recording):
        return np.zeros(len(event), np.bool_)
    after = np.searchsorted(backward, starts, side="right")
    before = np.where(after > 0, backward[after - 1], np.iinfo(np.int64).min)
    last = np.searchsorted(recording, starts, side="right") - 1
    recorded = (last >= 0) & (recording[last] > before) & (recording[last] >= since)
    evaluated: NDArray[np.bool_] = stepping & recorded & (backward[np.minimum(after, len(backward) - 1)] < until)
    return evaluated


def _mark_engine_ops(trace: Trace, event: Ints, within: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Ops of threads that run autograd nodes and record no gradients outside of them: hooks after backward."""
    thread = trace.thread[event]
    engine = np.zeros(len(trace.threads), np.bool_)
    engine[thread[within]] = True
    engine[thread[~within & (trace.sequence[event] != NONE)]] = False
    return engine[thread]


def _find_before_backward(
    trace: Trace, event: Ints, step: Ints, phase: Ints, rest: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Of ops without a phase, those from the first that records gradients to the last backward op of their step."""
    starts = trace.start_ns[event]
    first = np.full(int(step.max()) + 2, np.iinfo(np.int64).max)
    last = np.full(len(first), np.iinfo(np.int64).min)
    backward = phase == _BACKWARD
    np.maximum.at(last, step[backward], starts[backward])
    recording = rest & (trace.sequence[event] != NONE)
    if recording.any():
        np.minimum.at(first, step[recording], starts[recording])
        # Threads that load data or exchange gradients record none.
        own = np.zeros(len(trace.threads), np.bool_)
        own[trace.thread[event[recording]]] = True
        rest = rest & own[trace.thread[event]]
    else:
        first[:] = np.iinfo(np.int64).min
    before: NDArray[np.bool_] = rest & (starts >= first[step]) & (starts < last[step])
    return before
