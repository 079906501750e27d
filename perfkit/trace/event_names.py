"""Tests event names, each distinct name once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import Ints, Trace

T = TypeVar("T")
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class EventNames:
    """The names of some events: `column` has the index of each event's in the table of names."""

    table: list[str]
    column: NDArray[np.int32]

    @classmethod
    def from_events(cls, trace: Trace, events: Ints) -> "EventNames":
        return cls(trace.names, trace.name[events])

    @cached_property
    def occurring(self) -> list[int]:
        """The indices of the names that occur."""
        if not len(self.column):
            return []
        indices: list[int] = np.flatnonzero(np.bincount(self.column)).tolist()
        return indices

    def are(self, test: Callable[[str], bool]) -> Flags:
        """Mark the events whose name passes."""
        passes = np.zeros(len(self.table) + 1, np.bool_)
        passes[[index for index in self.occurring if test(self.table[index])]] = True
        flags: Flags = passes[self.column]
        return flags


def mark_named(trace: Trace, events: Ints, test: Callable[[str], bool]) -> Flags:
    """Mark the events whose name passes."""
    return EventNames.from_events(trace, events).are(test)


def map_names(trace: Trace, events: Ints, number_of: Callable[[str], T | None]) -> tuple[Ints, dict[int, T]]:
    """The events whose name has a value, and the values by index of the name."""
    names = EventNames.from_events(trace, events)
    asked = ((index, number_of(names.table[index])) for index in names.occurring)
    values = {index: value for index, value in asked if value is not None}
    has = np.zeros(len(names.table) + 1, np.bool_)
    has[list(values)] = True
    return events[has[names.column]], values
