"""Bytes alive over time, their peak and those of steps.

A moment is a number of events passed: moment 0 is before the first event, moment m is after event m - 1.
"""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes
from perfkit.core.allocations import NONE, Allocations, Ints


@dataclass(frozen=True)
class StepEvents:
    """Steps in the order of time: `number` as the source counts, over the events `first` to `last`."""

    number: Ints
    first: Ints
    last: Ints

    def __len__(self) -> int:
        return len(self.number)


def compute_totals(lives: Lifetimes, events: int) -> Ints:
    """Bytes alive at each of the `events` + 1 moments."""
    changes = np.zeros(events + 1, np.int64)
    began = lives.born != AT_START
    # An event begins and ends one life at most, so no index occurs twice in an assignment.
    changes[0] = lives.size[~began].sum()
    changes[lives.born[began] + 1] += lives.size[began]
    ended = lives.died < events
    changes[lives.died[ended] + 1] -= lives.size[ended]
    return np.cumsum(changes)


def find_peak_event(totals: Ints) -> int:
    """The first event after which the most bytes are alive; AT_START if that is before the first event."""
    return int(np.argmax(totals)) - 1


def find_steps(allocations: Allocations) -> StepEvents:
    """The steps that have events."""
    inside = np.flatnonzero(allocations.step != NONE)
    step = allocations.step[inside].astype(np.int64)
    number, first = np.unique(step, return_index=True)
    _, from_end = np.unique(step[::-1], return_index=True)
    order = np.argsort(first)
    return StepEvents(number=number[order], first=inside[first[order]], last=inside[::-1][from_end[order]])


def compute_step_peaks(totals: Ints, steps: StepEvents) -> tuple[int, ...]:
    """The most bytes alive in each step, those alive when it begins included."""
    return tuple(
        int(totals[first : last + 2].max())
        for first, last in zip(steps.first.tolist(), steps.last.tolist(), strict=True)
    )
