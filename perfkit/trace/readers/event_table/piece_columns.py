"""Columns of a piece of a trace, as readers hand them over."""

from collections import Counter
from enum import IntEnum
from typing import Any, NamedTuple

from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]

# Of an event whose duration is missing, negative or impossible.
UNKNOWN_DURATION = -1


class EventKind(IntEnum):
    """The kind of an event by its `ph`; the first three are rows of the trace."""

    COMPLETE = 0
    BEGIN = 1
    END = 2
    FLOW = 3
    MEMORY = 4
    COUNTER = 5
    METADATA = 6
    IGNORED = 7
    UNKNOWN = 8


class PieceColumns(NamedTuple):
    """The columns of one piece. Numbers of names and the like refer to the tables of its `ColumnBuilder`.

    `rows` has `kind`, `hlo` (whether it names an XLA op), `numbered` (whether it is a step of XLA's) and the columns
    of `Trace` but for the end, which is a `duration`; `entries` are the values that the piece added to each table.
    """

    rows: Columns
    flows: Columns
    memory: Columns
    syncs: Columns
    counters: Columns
    metadata: list[tuple[int, str, bytes]]  # thread, what is stated, the statement as JSON
    entries: dict[str, list[Any]]
    notes: Counter[str]
