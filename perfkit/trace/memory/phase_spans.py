"""Phases as time spans, and the bands above the timeline: steps, phases, modules."""

import numpy as np

from perfkit.core.allocations import TimeBand
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.event_nesting import compute_depths
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.module_calls import ModuleCalls
from perfkit.trace.ops.ops import Ops
from perfkit.trace.steps.phases import PhaseIntervals, PhaseRanges

# Modules are named as long as there are no more of their calls; then only the outermost.
MOST_MODULES = 1000

_BACKWARD = PHASES.index("backward")


def find_phase_spans(ops: Ops, ranges: PhaseRanges) -> PhaseIntervals:
    """The phases over time: as marked, else from the first of a row of ops of one phase to the end of its last.

    Ops on the threads that steps run on decide, and those of backward on any; ranges that name a phase do so too.
    """
    if len(ranges.marked):
        return ranges.marked
    trace = ops.trace
    phase = np.asarray(ops.phase, np.int64)
    threads = (
        np.unique(ops.steps.thread) if len(ops.steps) else np.unique(trace.thread[ops.event[_find_forward(phase)]])
    )
    telling = (phase != NONE) & (np.isin(trace.thread[ops.event], threads) | (phase == _BACKWARD))
    event = np.concatenate([np.asarray(ops.event, np.int64)[telling], ranges.events])
    phase = np.concatenate([phase[telling], ranges.phase])
    order = np.argsort(event, kind="stable")  # events are in the order of time
    event, phase = event[order], phase[order]
    if not len(event):
        return ranges.marked
    start, end = trace.start_ns[event], trace.end_ns[event]
    step = ops.steps.locate_times(start)
    first = np.flatnonzero(np.diff(phase * (len(ops.steps) + 1) + step + 1, prepend=NONE - 1))
    begin = start[first]
    until = np.maximum.reduceat(end, first)
    until[:-1] = np.minimum(until[:-1], begin[1:])
    return PhaseIntervals(phase[first], begin, until)


def _find_forward(phase: Ints) -> Ints:
    return np.flatnonzero((phase != NONE) & (phase != _BACKWARD))


def build_bands(ops: Ops, spans: PhaseIntervals, modules: ModuleCalls, around_ns: int) -> tuple[TimeBand, ...]:
    """Build bands of steps, phases and modules of the step around a moment (of the whole trace outside steps)."""
    steps = ops.steps
    steps_and_phases = [
        TimeBand(kind="step", name=str(number), start_ns=start, end_ns=end)
        for number, start, end in zip(
            steps.number.tolist(), steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True
        )
    ]
    steps_and_phases += [
        TimeBand(kind="phase", name=PHASES[phase], start_ns=start, end_ns=end)
        for phase, start, end in zip(spans.phase.tolist(), spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True)
    ]
    return (*steps_and_phases, *_build_module_bands(ops, modules, around_ns))


def _build_module_bands(ops: Ops, modules: ModuleCalls, around_ns: int) -> list[TimeBand]:
    trace = ops.trace
    start, end, depth = trace.start_ns[modules.calls], trace.end_ns[modules.calls], compute_depths(modules.parent)
    step = int(ops.steps.locate_times(np.asarray([around_ns]))[0])
    within = np.ones(len(start), np.bool_)
    if step != NONE:
        within = (start >= ops.steps.start_ns[step]) & (start < ops.steps.end_ns[step])
    calls_to_depth = np.cumsum(np.bincount(depth[within]))
    within &= depth < np.searchsorted(calls_to_depth, MOST_MODULES, side="right")
    chosen = np.flatnonzero(within)
    rows = zip(
        modules.path[chosen].tolist(), start[chosen].tolist(), end[chosen].tolist(), depth[chosen].tolist(), strict=True
    )
    return [
        TimeBand(kind="module", name=modules.paths[path], start_ns=begin, end_ns=until, depth=level)
        for path, begin, until, level in rows
    ]
