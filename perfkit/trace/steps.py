"""The steps of a trace, from our own marks or from torch.profiler's."""

import re
from dataclasses import dataclass

import numpy as np

from perfkit.record import STEP_MARK
from perfkit.trace.read import NONE, Category, Ints, Trace

_MARKS = (re.compile(re.escape(STEP_MARK) + r"#(\d+)"), re.compile(r"ProfilerStep#(\d+)"))


@dataclass(frozen=True)
class Steps:
    """Steps in the order of time: their numbers as marked, when the host began and ended them, and on which thread."""

    number: Ints
    start_ns: Ints
    end_ns: Ints
    thread: Ints

    def __len__(self) -> int:
        return len(self.number)

    def at(self, times: Ints) -> Ints:
        """For each time the index of the step it lies in, NONE outside of all."""
        return containing(self.start_ns, self.end_ns, times)


def find_steps(trace: Trace) -> Steps:
    """Steps marked `perfkit::step#n`; where there are none, `ProfilerStep#n`. Empty where the trace marks none."""
    ranges = trace.of(Category.RANGE)
    for pattern in _MARKS:
        numbers = {
            index: int(match[1])
            for index, name in enumerate(trace.names)
            if (match := pattern.fullmatch(name)) is not None
        }
        events = ranges[np.isin(trace.name[ranges], list(numbers))] if numbers else ranges[:0]
        if len(events):
            break
    return Steps(
        number=np.asarray([numbers[int(name)] for name in trace.name[events]], np.int64),
        start_ns=trace.start_ns[events],
        end_ns=trace.end_ns[events],
        thread=trace.thread[events].astype(np.int64),
    )


def containing(starts: Ints, ends: Ints, times: Ints) -> Ints:
    """For each time the index of the interval (sorted, not overlapping) it lies in, or NONE."""
    if not len(starts):
        return np.full(len(times), NONE, np.int64)
    index = np.searchsorted(starts, times, side="right") - 1
    return np.where((index >= 0) & (times < ends[index]), index, NONE)
