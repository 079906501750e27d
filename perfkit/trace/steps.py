"""The steps of a trace: marked by us, by torch.profiler or by the program, or found where the same work repeats."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from perfkit.record import STEP_MARK
from perfkit.trace.annotations import COLLECTIVE_RANGES, OPTIMIZER_STEP, phase_of
from perfkit.trace.naming import named, numbered
from perfkit.trace.periodicity import repeats
from perfkit.trace.read import DEVICE_CATEGORIES, NONE, Category, Ints, Trace

_PROFILER = re.compile(r"ProfilerStep ?#(\d{1,18})")
_MARKS = (
    (re.compile(re.escape(STEP_MARK) + r"#(\d{1,18})"), "marked by perfkit"),
    (_PROFILER, "marked by torch.profiler (ProfilerStep)"),
)

# Names that programs give to the range around a step, without their numbers, in lower case.
_STEP_NAMES = re.compile(
    r"\W*((train(ing)?|global|val(idation)?|eval(uation)?|inference)?[\s_]*(step|iter(ation)?|batch)"
    r"|.*run_training_batch|.*_training_step_and_backward)\W*"
)
# What servers of language models write into the range around a step: the sizes of its batch, no number of the step.
_SERVING = (
    (re.compile(r"execute_(context|new)_\d+\S*"), "execute_context"),  # vLLM
    (re.compile(r"step\[\w+ [^\]]*\]"), "step[]"),  # SGLang
)
# Numbered parts of a model or of a step cover it as steps cover a trace.
_PARTS = re.compile(r"layer|block|stage|module|expert|head|encoder|decoder|bucket|micro|chunk|split")
# How much of the time from its first to its last range has to be within the ranges of a name that is no name of steps.
_LEAST_COVER = 0.8


@dataclass(frozen=True)
class Steps:
    """Steps in the order of time: their numbers as marked, when the host began and ended them, and on which thread.

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

    def at(self, times: Ints) -> Ints:
        """For each time the index of the step it lies in, NONE outside of all."""
        return containing(self.start_ns, self.end_ns, times)


def find_steps(trace: Trace, ops: Ints, parent: Ints) -> Steps:
    """The steps of a trace whose `ops` (events in the order of time) nest by `parent`; empty where none are found.

    In this order: `perfkit::step#n`, `ProfilerStep#n`, ranges of the program that repeat and cover the trace, calls
    of an optimizer, the profiler's ranges on the device, a sequence of ops (where there are none, of kernels) that
    repeats from beginning to end.
    """
    top = ops[parent == NONE]
    for find in (_marked, _annotated, _between_optimizers, _marked_on_device, _periodic):
        steps = find(trace, top)
        if len(steps):
            return steps
    return _none()


def _none() -> Steps:
    empty = np.empty(0, np.int64)
    return Steps(empty, empty, empty, empty)


def _marked(trace: Trace, ops: Ints) -> Steps:
    ranges = trace.of(Category.RANGE, Category.OP)  # old versions wrote ranges as ops
    for pattern, basis in _MARKS:
        events, numbers = numbered(trace, ranges, _number_by(pattern))
        if len(events):
            events = _busiest_thread(trace, events, ops)
            if pattern is _PROFILER:
                events = _with_work(trace, events)
            return _from_ranges(trace, events, numbers.__getitem__, basis)
    return _none()


def _number_by(pattern: re.Pattern[str]) -> Callable[[str], int | None]:
    def number(name: str) -> int | None:
        match = pattern.fullmatch(name)
        return int(match[1]) if match else None

    return number


# torch.profiler's name; XLA's profiler writes numbers alone.
_ON_DEVICE = re.compile(r"(?:ProfilerStep ?#)?(\d{1,18})")


def _marked_on_device(trace: Trace, _: Ints) -> Steps:
    events, numbers = numbered(trace, trace.of(Category.GPU_RANGE), _number_by(_ON_DEVICE))
    if not len(events):
        return _none()
    events = events[trace.thread[events] == _busiest(trace, events)]
    steps = _from_ranges(trace, events, numbers.__getitem__, "marked by the profiler on the device")
    return replace(steps, on_device=True)


def _busiest(trace: Trace, events: Ints) -> int:
    """The thread whose events take the most time."""
    return int(np.bincount(trace.thread[events], weights=trace.end_ns[events] - trace.start_ns[events]).argmax())


def _from_ranges(trace: Trace, events: Ints, number_of: Callable[[int], int], basis: str) -> Steps:
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
    return Steps(
        np.asarray(numbers, np.int64), starts[keep], ends[keep], trace.thread[events[keep]].astype(np.int64), basis
    )


def _with_work(trace: Trace, events: Ints) -> Ints:
    """Without ranges in which nothing began: the profiler opens one more when the last step ends."""
    begun = trace.start_ns[trace.of(Category.OP, Category.LAUNCH, *DEVICE_CATEGORIES)]
    count = np.searchsorted(begun, trace.end_ns[events]) - np.searchsorted(begun, trace.start_ns[events])
    return events[count > 0] if (count > 0).any() else events


def _busiest_thread(trace: Trace, ranges: Ints, ops: Ints) -> Ints:
    """Of ranges on several threads or of several processes those of the thread with the most ops."""
    threads = np.unique(trace.thread[ranges])
    if len(threads) == 1:
        return ranges
    counts = np.bincount(trace.thread[ops], minlength=len(trace.threads))
    of_thread: Ints = ranges[trace.thread[ranges] == threads[int(counts[threads].argmax())]]
    return of_thread


_NUMBER = re.compile(r"[\s_#:\[(]*\d+[\])]?\W*$")


def _annotated(trace: Trace, ops: Ints) -> Steps:
    """Ranges of one name on one thread that follow each other, from the first to the last around most of the work.

    What is named a step is one; of other ranges the rarest, for those that are more frequent may be parts of a step.
    """
    work = trace.start_ns[ops if len(ops) else trace.of(*DEVICE_CATEGORIES)]
    events, stems = numbered(trace, trace.of(Category.RANGE), _stem)
    if not len(events) or not len(work):
        return _none()
    alike = {stem: number for number, stem in enumerate(sorted(set(stems.values())))}
    number = np.zeros(len(trace.names), np.int64)
    for index, stem in stems.items():
        number[index] = alike[stem]
    group = number[trace.name[events]] * len(trace.threads) + trace.thread[events]
    events = events[np.argsort(group, kind="stable")]
    starts, ends = trace.start_ns[events], trace.end_ns[events]
    first = np.flatnonzero(np.diff(np.sort(group), prepend=-1))
    last = np.append(first[1:], len(events))
    begin, end = starts[first], ends[last - 1]
    around = np.searchsorted(work, end) - np.searchsorted(work, begin)
    covered = np.add.reduceat(ends - starts, first)
    # Between its batches a server does other things or waits.
    serving = np.isin(number[trace.name[events[first]]], [alike[stem] for _, stem in _SERVING if stem in alike])
    fits = (around >= _LEAST_COVER * len(work)) & ((covered >= _LEAST_COVER * (end - begin)) | serving)
    candidates = []
    for each in np.flatnonzero(fits).tolist():
        stem = stems[int(trace.name[events[first[each]]])]
        says_so = bool(serving[each]) or _STEP_NAMES.fullmatch(stem.lower()) is not None
        count = int(last[each] - first[each])
        if says_so or count > 1:
            candidates.append((not says_so, count, each, stem))
    for _, _, each, stem in sorted(candidates):
        chosen = slice(int(first[each]), int(last[each]))
        if (starts[chosen][1:] >= ends[chosen][:-1]).all():
            basis = f"marked by the program ({stem})"
            return _from_ranges(trace, events[chosen], lambda name: _number_in(trace.names[name]), basis)
    return _none()


def _stem(name: str) -> str | None:
    """A range's name without its number; None for what is no step: collectives, phases and parts of a model."""
    served = _served(name)
    if served is not None:
        return served
    stem = _NUMBER.sub("", name)
    if name.startswith(COLLECTIVE_RANGES) or _PARTS.search(stem.lower()) or phase_of(name) is not None:
        return None
    return stem


def _served(name: str) -> str | None:
    return next((stem for pattern, stem in _SERVING if pattern.fullmatch(name)), None)


def _number_in(name: str) -> int:
    if _served(name) is not None:
        return NONE
    found = re.findall(r"\d+", name)
    return int(found[-1]) if found and len(found[-1]) < 19 else NONE


def _between_optimizers(trace: Trace, ops: Ints) -> Steps:
    """From the end of one call of the optimizer to the end of the next; the first from the first op."""
    ranges = trace.of(Category.RANGE, Category.OP)
    events = ranges[named(trace, ranges, lambda name: OPTIMIZER_STEP.match(name) is not None)]
    if not len(events) or not len(ops):
        return _none()
    events = _busiest_thread(trace, events, ops)
    names, counts = np.unique(trace.name[events], return_counts=True)
    # Several optimizers in a step: the one that is called least.
    events = events[trace.name[events] == names[int(counts.argmin())]]
    if len(events) < 2:
        return _none()
    ends = trace.end_ns[events]
    starts = np.append(min(int(trace.start_ns[ops[0]]), int(trace.start_ns[events[0]])), ends[:-1])
    basis = f"found by periodicity: {len(events)} calls of {trace.names[int(trace.name[events[0]])]}"
    return Steps(np.arange(len(events)), starts, ends, trace.thread[events].astype(np.int64), basis)


def _periodic(trace: Trace, ops: Ints) -> Steps:
    events, what = (ops, "ops") if len(ops) else (trace.of(*DEVICE_CATEGORIES), "kernels")
    if not len(events):
        return _none()
    thread = _busiest(trace, events)
    busiest = events[trace.thread[events] == thread]
    found = repeats(trace.name[busiest], trace.start_ns[busiest], int(trace.end_ns[events].max()))
    if found is None or found[2] == 1:  # one op again and again is a loop, but no step
        return _none()
    starts, ends, length = found
    basis = f"found by periodicity: {len(starts)} repeats of {length} {what}"
    return Steps(np.arange(len(starts)), starts, ends, np.full(len(starts), thread, np.int64), basis, not len(ops))


def containing(starts: Ints, ends: Ints, times: Ints) -> Ints:
    """For each time the index of the interval (sorted, not overlapping) it lies in, or NONE."""
    if not len(starts):
        return np.full(len(times), NONE, np.int64)
    index = np.searchsorted(starts, times, side="right") - 1
    return np.where((index >= 0) & (times < ends[index]), index, NONE)
