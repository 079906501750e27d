"""Finds the steps of a trace: marked by perfkit, torch.profiler or the program, else by repeating work."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfkit.core.record.trace_marks import STEP_MARK
from perfkit.trace.annotations import OPTIMIZER_STEP
from perfkit.trace.event_names import map_names, mark_named
from perfkit.trace.model import DEVICE_CATEGORIES, NONE, Category, Ints, Trace
from perfkit.trace.steps.step_ranges import find_program_steps, parse_step_number

# Fewer repeats of a sequence may be layers, or chance.
LEAST_REPEATS = 3
# A sequence is compared with itself at a few places before it is compared in full, and that not without end.
_SAMPLE = 256
_MOST_COMPARISONS = 1000
# The part of a step's ops that a recorded step has at least.
_WHOLE = 0.9


def find_period(sequence: NDArray[np.integer]) -> int | None:
    """The smallest p such that each element equals the one p before it, if at least three periods fit.

    The whole sequence has to repeat: the layers of one pass over a model do, too, but for what comes before and after
    them, and are no steps. The rarest element decides where to look, as it occurs in every repeat.
    """
    if len(sequence) < LEAST_REPEATS:
        return None
    _, number, counts = np.unique(sequence, return_inverse=True, return_counts=True)
    if int(counts.min()) < LEAST_REPEATS:
        return None
    places = np.flatnonzero(number == int(counts.argmin()))
    compared = 0
    for candidate in (places[1:] - places[0]).tolist():
        if candidate * LEAST_REPEATS > len(sequence) or compared == _MOST_COMPARISONS:
            return None
        sample = np.linspace(0, len(sequence) - candidate - 1, _SAMPLE, dtype=np.int64)
        if np.array_equal(number[sample], number[sample + candidate]):
            compared += 1
            if np.array_equal(number[candidate:], number[:-candidate]):
                return int(candidate)
    return None


def find_repeats(sequence: NDArray[np.integer], starts: Ints, end: int) -> tuple[Ints, Ints, int] | None:
    """The start and end times of whole repeats, and their length in elements; None without any.

    `starts` are the times of the elements; `end` is when the last one's work is over.
    """
    length = find_period(sequence)
    if length is None:
        return None
    whole = len(sequence) // length
    bounds = np.append(starts, end)[np.arange(whole + 1) * length]
    return bounds[:-1], bounds[1:], length


_PROFILER = re.compile(r"ProfilerStep ?#(\d{1,18})")
_MARKS = (
    (re.compile(re.escape(STEP_MARK) + r"#(\d{1,18})"), "marked by perfkit"),
    (_PROFILER, "marked by torch.profiler"),
)


@dataclass(frozen=True)
class StepIntervals:
    """Steps in order of time: their marked numbers, their start and end on the CPU, and their thread.

    They do not overlap. `basis` tells in words how they were found, and is empty where there are none. `on_device`
    tells that the times are those of the device, where nothing on the host marks steps.
    """

    number: Ints
    start_ns: Ints
    end_ns: Ints
    thread: Ints
    basis: str = ""
    on_device: bool = False

    def __len__(self) -> int:
        return len(self.number)

    def locate_times(self, times: Ints) -> Ints:
        """For each time, the index of its step, NONE outside of all."""
        return find_intervals(self.start_ns, self.end_ns, times)


def find_steps(trace: Trace, ops: Ints, parent: Ints) -> StepIntervals:
    """The steps of a trace whose `ops` (events in the order of time) nest by `parent`; empty where none are found.

    In this order: `perfkit::step#n`, `ProfilerStep#n`, the steps of XLA's profiler on a device, ranges of the program
    that repeat and cover the trace, calls of an optimizer, the profiler's ranges on the device, a sequence of ops
    (where there are none, of kernels) that repeats from beginning to end.
    """
    top = ops[parent == NONE]
    for find in (
        _find_marked,
        _find_on_steps_lane,
        _find_annotated,
        _find_between_optimizers,
        _find_marked_on_device,
        _find_periodic,
    ):
        steps = find(trace, top)
        if len(steps):
            return steps
    return _make_empty()


def _make_empty() -> StepIntervals:
    empty = np.empty(0, np.int64)
    return StepIntervals(empty, empty, empty, empty)


def _find_marked(trace: Trace, ops: Ints) -> StepIntervals:
    ranges = trace.select_events(Category.RANGE, Category.OP)  # old versions wrote ranges as ops
    for pattern, basis in _MARKS:
        events, numbers = map_names(trace, ranges, _make_number_parser(pattern))
        if len(events):
            events = _select_busiest_thread(trace, events, ops)
            if pattern is _PROFILER:
                events = _drop_idle_ranges(trace, events)
            return _build_from_ranges(trace, events, numbers.__getitem__, basis)
    return _make_empty()


def _make_number_parser(pattern: re.Pattern[str]) -> Callable[[str], int | None]:
    def number(name: str) -> int | None:
        match = pattern.fullmatch(name)
        return int(match[1]) if match else None

    return number


_XLA_STEPS = "Steps"
_XLA_STEP = re.compile(r"(?:.*\D)?(\d{1,18})")


def _find_on_steps_lane(trace: Trace, _: Ints) -> StepIntervals:
    """Find steps that XLA's profiler shows as run by a device, on their own thread; the CPU may be ahead of it."""
    lanes = np.asarray([name == _XLA_STEPS for name in trace.thread_names] or [False])
    ranges = trace.select_events(Category.GPU_RANGE)
    events, numbers = map_names(trace, ranges[lanes[trace.thread[ranges]]], _make_number_parser(_XLA_STEP))
    if not len(events):
        return _make_empty()
    events = events[trace.thread[events] == _find_busiest(trace, events)]
    steps = _build_from_ranges(trace, events, numbers.__getitem__, "marked by the profiler on the device")
    return replace(steps, on_device=True)


# torch.profiler's name; XLA's profiler writes numbers alone.
_ON_DEVICE = re.compile(r"(?:ProfilerStep ?#)?(\d{1,18})")


def _find_marked_on_device(trace: Trace, _: Ints) -> StepIntervals:
    events, numbers = map_names(trace, trace.select_events(Category.GPU_RANGE), _make_number_parser(_ON_DEVICE))
    if not len(events):
        return _make_empty()
    events = events[trace.thread[events] == _find_busiest(trace, events)]
    steps = _build_from_ranges(trace, events, numbers.__getitem__, "marked by the profiler on the device")
    return replace(steps, on_device=True)


def _find_busiest(trace: Trace, events: Ints) -> int:
    """The thread whose events take the most time."""
    return int(np.bincount(trace.thread[events], weights=trace.end_ns[events] - trace.start_ns[events]).argmax())


def _build_from_ranges(trace: Trace, events: Ints, number_of: Callable[[int], int], basis: str) -> StepIntervals:
    """One step a range, counted from 0 where not all have numbers.

    A range that mostly lies in the one before repeats it and is left out.
    """
    starts, ends = trace.start_ns[events].copy(), trace.end_ns[events]
    keep = []
    last = None
    for index in range(len(events)):
        start, end = int(starts[index]), int(ends[index])
        if last is not None and start < last:
            if (last - start) * 2 > end - start:
                continue
            starts[index] = last
        keep.append(index)
        last = end
    numbers = [number_of(int(name)) for name in trace.name[events[keep]]]
    if NONE in numbers:
        numbers = list(range(len(keep)))
    return StepIntervals(
        np.asarray(numbers, np.int64), starts[keep], ends[keep], trace.thread[events[keep]].astype(np.int64), basis
    )


def _drop_idle_ranges(trace: Trace, events: Ints) -> Ints:
    """Drop ranges in which nothing began: the profiler opens one more when the last step ends."""
    begun = trace.start_ns[trace.select_events(Category.OP, Category.LAUNCH, *DEVICE_CATEGORIES)]
    count = np.searchsorted(begun, trace.end_ns[events]) - np.searchsorted(begun, trace.start_ns[events])
    return events[count > 0] if (count > 0).any() else events


def _select_busiest_thread(trace: Trace, ranges: Ints, ops: Ints) -> Ints:
    """Of ranges on several threads or processes, those of the thread with the most ops."""
    threads = np.unique(trace.thread[ranges])
    if len(threads) == 1:
        return ranges
    counts = np.bincount(trace.thread[ops], minlength=len(trace.threads))
    of_thread: Ints = ranges[trace.thread[ranges] == threads[int(counts[threads].argmax())]]
    return of_thread


def _find_annotated(trace: Trace, ops: Ints) -> StepIntervals:
    marked = find_program_steps(trace, ops)
    if marked is None:
        return _make_empty()
    events, stem = marked
    basis = f"marked by the program ({stem})"
    return _build_from_ranges(trace, events, lambda name: parse_step_number(trace.names[name]), basis)


def _find_between_optimizers(trace: Trace, ops: Ints) -> StepIntervals:
    """Steps from the end of one optimizer call to the end of the next.

    The first one starts with the first op that is no set-up; it is left out where the recording began within it.
    """
    ranges = trace.select_events(Category.RANGE, Category.OP)
    events = ranges[mark_named(trace, ranges, lambda name: OPTIMIZER_STEP.match(name) is not None)]
    if not len(events) or not len(ops):
        return _make_empty()
    events = _select_busiest_thread(trace, events, ops)
    names, counts = np.unique(trace.name[events], return_counts=True)
    # Several optimizers in a step: the one that is called least.
    events = events[trace.name[events] == names[int(counts.argmin())]]
    if len(events) < 2:
        return _make_empty()
    basis = f"detected by periodicity: {len(events)} calls of {trace.names[int(trace.name[events[0]])]}"
    first = _find_first_start(trace, ops, events)
    ends, number = trace.end_ns[events], np.arange(len(events))
    starts = np.append(NONE if first is None else first, ends[:-1])
    steps = StepIntervals(number, starts, ends, trace.thread[events].astype(np.int64), basis)
    if first is not None:
        return steps
    return StepIntervals(number[1:], starts[1:], ends[1:], steps.thread[1:], basis)


def _find_first_start(trace: Trace, ops: Ints, optimizers: Ints) -> int | None:
    """The start of the first step: behind any set-up, where the ops begin that lead to both optimizer calls.

    The first op where they are not the same; None where the recording began within the step.
    """
    mine = ops[trace.thread[ops] == trace.thread[optimizers[0]]]
    start, name = trace.start_ns[mine], trace.name[mine]
    before = start < trace.start_ns[optimizers[0]]
    again = name[(start >= trace.end_ns[optimizers[0]]) & (start < trace.start_ns[optimizers[1]])]
    start, name = start[before], name[before]
    length = min(len(name), len(again))
    same = name[len(name) - length :] == again[len(again) - length :]
    common = int(np.logical_and.accumulate(same[::-1]).sum())
    # The second step begins with what its predecessor does after the optimizer, such as reading the loss.
    is_whole = common > 0 and common >= _WHOLE * len(again)
    if is_whole and common < len(name):
        return int(start[len(name) - common])
    if common == len(name) > 0 and not is_whole:
        return None
    return min(int(trace.start_ns[ops[0]]), int(trace.start_ns[optimizers[0]]))


def _find_periodic(trace: Trace, ops: Ints) -> StepIntervals:
    events, what = (ops, "ops") if len(ops) else (trace.select_events(*DEVICE_CATEGORIES), "kernels")
    if not len(events):
        return _make_empty()
    thread = _find_busiest(trace, events)
    busiest = events[trace.thread[events] == thread]
    repeated = find_repeats(trace.name[busiest], trace.start_ns[busiest], int(trace.end_ns[events].max()))
    if repeated is None or repeated[2] == 1:  # one op again and again is a loop, but no step
        return _make_empty()
    starts, ends, length = repeated
    basis = f"detected by periodicity: {len(starts)} repeats of {length} {what}"
    return StepIntervals(
        np.arange(len(starts)), starts, ends, np.full(len(starts), thread, np.int64), basis, not len(ops)
    )


def find_intervals(starts: Ints, ends: Ints, times: Ints) -> Ints:
    """For each time, the index of its interval (sorted, not overlapping), or NONE."""
    if not len(starts):
        return np.full(len(times), NONE, np.int64)
    index = np.searchsorted(starts, times, side="right") - 1
    return np.where((index >= 0) & (times < ends[index]), index, NONE)
