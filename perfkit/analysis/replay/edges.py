"""The table to which rules add edges, and the meaning of each kind of edge."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import Ints

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class EdgeKind(IntEnum):
    """The reason that one event follows another."""

    START = 0  # nothing before it was recorded: kept at its time
    HOST = 1  # a thread continues
    CALL = 2  # the own time of a call that blocks or is throttled
    LAUNCH = 3  # from the CPU call to its kernel
    STREAM = 4  # the kernel before it on the stream
    EVENT = 5  # a stream waits for an event of another
    INFERRED = 6  # begins when a kernel of another stream ends, without a recorded reason
    SYNC = 7  # a call that blocks returns
    QUEUE = 8  # a launch waits until the queue has room
    HANDOFF = 9  # a thread wakes another
    PEERS = 10  # a collective ends when the last rank has come


@dataclass(frozen=True)
class Edges:
    """Columns, one row an edge from node `source` to node `target`.

    The target happens no sooner than `lag_ns` after the source; `carries` marks that the source's own duration (of a
    kernel) comes on top. Of HOST and CALL edges the lag is host time.
    """

    source: Ints
    target: Ints
    kind: NDArray[np.int8]
    lag_ns: Floats
    carries: Flags

    def __len__(self) -> int:
        return len(self.source)

    def select_rows(self, rows: NDArray[np.int64] | Flags) -> "Edges":
        return Edges(self.source[rows], self.target[rows], self.kind[rows], self.lag_ns[rows], self.carries[rows])


def make_edges(
    kind: EdgeKind, source: Ints, target: Ints, lag_ns: NDArray[np.generic] | float, carries: bool = False
) -> Edges:
    """Edges of one kind."""
    count = len(source)
    return Edges(
        np.asarray(source, np.int64),
        np.asarray(target, np.int64),
        np.full(count, kind, np.int8),
        np.broadcast_to(np.asarray(lag_ns, np.float64), (count,)).copy(),
        np.full(count, carries, np.bool_),
    )


def join_edges(parts: Iterable[Edges]) -> Edges:
    """Several tables as one."""
    parts = list(parts)
    return Edges(
        np.concatenate([part.source for part in parts]),
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.kind for part in parts]),
        np.concatenate([part.lag_ns for part in parts]),
        np.concatenate([part.carries for part in parts]),
    )
