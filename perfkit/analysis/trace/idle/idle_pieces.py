"""Pieces of the idle time of a device, each with one cause."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.idle import CAUSES
from perfkit.analysis.trace.idle.host_places import HostEvents, HostPlaces
from perfkit.analysis.trace.time.intervals import Intervals, merge_intervals
from perfkit.trace.model import NONE, Ints

NUMBER = {cause: number for number, cause in enumerate(CAUSES)}


@dataclass(frozen=True)
class IdleTime:
    """Columns, one row a piece of time in which a device did not work, in the order of time.

    Attributes:
        cause: as an index into `CAUSES`.
        gap: number of the gap between kernels that it is a piece of.
        event: the call or range of the host that it is charged to, NONE where it is charged to none.
        following: row of the kernel that began next, NONE after the last.
        within: whether it lies in the steps.
        places: what the host was in where it was in the way; nothing in the other rows.
        host: what these were looked up in.
        device: row of `ops.devices`.
    """

    begin_ns: Ints
    end_ns: Ints
    cause: NDArray[np.int8]
    gap: Ints
    event: Ints
    following: Ints
    within: NDArray[np.bool_]
    places: HostPlaces
    host: HostEvents
    device: int = 0

    def __len__(self) -> int:
        return len(self.begin_ns)

    @property
    def length_ns(self) -> Ints:
        return self.end_ns - self.begin_ns

    def find_spans(self, *causes: str) -> Intervals:
        """The time with one of these causes."""
        rows = self.has_cause(*causes)
        return merge_intervals(self.begin_ns[rows], self.end_ns[rows])

    def has_cause(self, *causes: str) -> NDArray[np.bool_]:
        """True where a piece has one of these causes."""
        among = np.zeros(len(CAUSES), np.bool_)
        among[[NUMBER[cause] for cause in causes]] = True
        chosen: NDArray[np.bool_] = among[self.cause]
        return chosen


class IdleCollector:
    """Pieces as they are found."""

    def __init__(self, gaps: Intervals) -> None:
        self.gaps = gaps
        self.pieces: list[Intervals] = []
        self.causes: list[NDArray[np.int8]] = []
        self.events: list[Ints] = []

    def add(self, cause: str | NDArray[np.int8], pieces: Intervals, events: Ints | int = NONE) -> None:
        number = NUMBER[cause] if isinstance(cause, str) else cause
        self.pieces.append(pieces)
        self.causes.append(np.broadcast_to(np.asarray(number, np.int8), (len(pieces),)))
        self.events.append(np.broadcast_to(np.asarray(events, np.int64), (len(pieces),)))
