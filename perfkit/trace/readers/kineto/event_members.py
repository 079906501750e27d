"""Members of event arguments, as columns."""

from collections.abc import Callable, Iterable
from itertools import compress
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import NONE
from perfkit.trace.readers.event_table.event_args import EventArgs
from perfkit.trace.readers.event_table.tables import ValueTable

SIGNATURE = attrgetter("dims", "strides", "types", "concrete")


def mark_present(values: Iterable[msgspec.Raw], count: int) -> NDArray[np.bool_]:
    """Mark the members that are present."""
    return np.fromiter(map(len, values), np.int64, count) > 0


def join_members(
    args: list[EventArgs], needed: str, members: Callable[[EventArgs], tuple[msgspec.Raw, ...]], table: ValueTable
) -> NDArray[np.int32]:
    """The numbers in `table` of some members together, for the events that have the one that is needed."""
    column = np.full(len(args), NONE, np.int32)
    has = mark_present(map(attrgetter(needed), args), len(args))
    # JSON has no zero bytes: one joins what belongs together without a tuple for every event.
    keys = map(b"\0".join, map(members, compress(args, has.tobytes())))
    column[has] = np.fromiter(map(table.__getitem__, keys), np.int32, int(has.sum()))
    return column
