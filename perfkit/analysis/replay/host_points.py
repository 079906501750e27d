"""The moments of CPU threads that matter: launches, blocking calls, wake-ups.

Between two moments of a thread lies host time. What is in it (ops, Python) needs no node: a change to it is a change to
the length of the stretch.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import Ints


class PointRole(IntEnum):
    """The role of a moment, in the order of simultaneous moments."""

    END = 0  # a call that may block returns
    WAKES = 1  # the end of idle time that another thread ended
    MARK = 2  # a step begins or ends, a thread wakes another
    BEGIN = 3  # a call that may block begins
    POINT = 4  # work is handed to the device
    SLEEPS = 5  # the beginning of idle time


@dataclass(frozen=True)
class HostPoints:
    """Columns, one row per moment, ordered by thread and time. `about` is the row of its subject, by role."""

    thread: Ints
    at_ns: Ints
    role: NDArray[np.int8]
    about: Ints

    def __len__(self) -> int:
        return len(self.thread)

    def find_rows(self, role: PointRole, count: int) -> Ints:
        """For each `about` below `count`, its row in this role, -1 without one."""
        result = np.full(count, -1, np.int64)
        rows = np.flatnonzero(self.role == role)
        result[self.about[rows]] = rows
        return result


@dataclass
class PointCollector:
    """Moments as rules find them."""

    threads: list[Ints]
    times: list[Ints]
    roles: list[NDArray[np.int8]]
    abouts: list[Ints]

    @classmethod
    def create_empty(cls) -> "PointCollector":
        return cls([], [], [], [])

    def add(self, role: PointRole, thread: Ints, at_ns: Ints, about: Ints) -> None:
        self.threads.append(np.asarray(thread, np.int64))
        self.times.append(np.asarray(at_ns, np.int64))
        self.roles.append(np.full(len(at_ns), role, np.int8))
        self.abouts.append(np.asarray(about, np.int64))

    def build_points(self) -> HostPoints:
        thread, at_ns = np.concatenate(self.threads), np.concatenate(self.times)
        role, about = np.concatenate(self.roles), np.concatenate(self.abouts)
        order = np.lexsort((role, at_ns, thread))
        return HostPoints(thread[order], at_ns[order], role[order], about[order])
