"""The phases of a step (data, forward, backward, optimizer) from our marks."""

from dataclasses import dataclass

import numpy as np

from perfkit.record import MARK_PREFIX, PHASES
from perfkit.trace.read import NONE, Category, Ints, Trace
from perfkit.trace.steps import containing


@dataclass(frozen=True)
class Phases:
    """Marked ranges in the order of time; `phase` indexes `perfkit.record.PHASES`."""

    phase: Ints
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.phase)

    def at(self, times: Ints) -> Ints:
        """For each time the index in `PHASES` of the phase it lies in, NONE outside of all.

        Time decides, not the thread: backward runs on threads of its own while the marking thread waits for it.
        """
        interval = containing(self.start_ns, self.end_ns, times)
        return np.where(interval == NONE, NONE, self.phase[interval]) if len(self) else interval


def find_phases(trace: Trace) -> Phases:
    """The phases marked in a trace; empty where it marks none."""
    ranges = trace.of(Category.RANGE)
    by_name = {MARK_PREFIX + phase: index for index, phase in enumerate(PHASES)}
    numbers = {index: by_name[name] for index, name in enumerate(trace.names) if name in by_name}
    events = ranges[np.isin(trace.name[ranges], list(numbers))] if numbers else ranges[:0]
    return Phases(
        phase=np.asarray([numbers[int(name)] for name in trace.name[events]], np.int64),
        start_ns=trace.start_ns[events],
        end_ns=trace.end_ns[events],
    )
