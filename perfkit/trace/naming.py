"""Asking something of the names of events: each distinct name that occurs is asked once."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.read import Ints, Trace

T = TypeVar("T")


def occurring(trace: Trace, events: Ints) -> list[int]:
    """The indices of the names of events."""
    found: list[int] = np.flatnonzero(np.bincount(trace.name[events], minlength=1)).tolist()
    return found


def named(trace: Trace, events: Ints, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """For each event whether its name passes."""
    passes = np.zeros(len(trace.names), np.bool_)
    if len(events):
        passes[[index for index in occurring(trace, events) if test(trace.names[index])]] = True
    return passes[trace.name[events]]


def numbered(trace: Trace, events: Ints, number_of: Callable[[str], T | None]) -> tuple[Ints, dict[int, T]]:
    """The events whose name has a value, and the values by index of the name."""
    if not len(events):
        return events, {}
    asked = ((index, number_of(trace.names[index])) for index in occurring(trace, events))
    values = {index: value for index, value in asked if value is not None}
    has = np.zeros(len(trace.names), np.bool_)
    has[list(values)] = True
    return events[has[trace.name[events]]], values
