"""The collectives of several ranks, and the place that each has in columns over all of them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from perfkit.trace.model import NONE, Ints


class CollectiveRows(NamedTuple):
    """The collectives of one rank; `kind` and `message` number those of all ranks. See `Arrivals`."""

    kind: Ints
    step: Ints
    number: Ints
    elements: Ints
    start_ns: Ints
    end_ns: Ints
    message: Ints
    exposed_ns: Ints


Source = Callable[[int], CollectiveRows]


class Slots:
    """The slot of each collective in columns over all ranks, one for each distinct collective."""

    def __init__(self, source: Source, ranks: int) -> None:
        self._codes: dict[int, Ints] = {}
        for rank in range(ranks):
            rows = source(rank)
            for kind in np.unique(rows.kind).tolist():
                codes = encode_position(rows.step, rows.number)[rows.kind == kind]
                known = self._codes.get(kind)
                self._codes[kind] = np.unique(codes) if known is None else np.union1d(known, codes)
        self._first: dict[int, int] = {}
        self.size = 0
        for kind in sorted(self._codes):
            self._first[kind] = self.size
            self.size += len(self._codes[kind])

    def find_slots(self, rows: CollectiveRows, shift: int = 0) -> Ints:
        """The slot of each row, or of the collective `shift` numbers later in its step; NONE without one."""
        result = np.full(len(rows.kind), NONE, np.int64)
        codes = encode_position(rows.step, rows.number) + shift
        for kind in np.unique(rows.kind).tolist():
            mine = np.flatnonzero(rows.kind == kind)
            known = self._codes[kind]
            at = np.minimum(np.searchsorted(known, codes[mine]), len(known) - 1)
            matched = known[at] == codes[mine]
            result[mine[matched]] = self._first[kind] + at[matched]
        return result

    def get_columns(self) -> tuple[Ints, Ints]:
        """Kind and step of each slot."""
        empty = [np.empty(0, np.int64)]
        kinds = [np.full(len(self._codes[kind]), kind) for kind in self._first]
        steps = [(self._codes[kind] >> 32) - 1 for kind in self._first]
        return np.concatenate(kinds or empty), np.concatenate(steps or empty)


def encode_position(step: Ints, number: Ints) -> Ints:
    """Step and running number in one: steps count from NONE (-1), and absurd ones are cut to 31 bits."""
    return (((step + 1) & 0x7FFFFFFF) << 32) | number
