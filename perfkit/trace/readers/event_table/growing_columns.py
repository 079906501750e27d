"""Columns that grow in place with little spare memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.compact_ints import can_fit_int32
from perfkit.trace.model import NONE

Column = NDArray[Any]

_FIRST_ROWS = 1 << 14


class GrowingColumn:
    """A column of the type of its first values.

    With `compact` it has integers of 32 bits until one comes that needs 64: nearly all identifiers fit.
    """

    def __init__(self, compact: bool = False) -> None:
        self._values: Column | None = None
        self._rows = 0
        self._compact = compact

    def __len__(self) -> int:
        return self._rows

    def extend(self, values: Column) -> None:
        """Put values at the end."""
        if self._compact and not can_fit_int32(values):
            self._compact = False
            self._values = None if self._values is None else self._values.astype(np.int64)
        if self._values is None:
            self._values = np.empty(0, np.int32 if self._compact else values.dtype)
        rows = self._rows + len(values)
        if rows > len(self._values):
            # The C library moves the pages of a large array, so that the old and the new one never exist together.
            self._values.resize(rows + rows // 8 + _FIRST_ROWS, refcheck=False)
        self._values[self._rows : rows] = values
        self._rows = rows

    def take(self) -> Column:
        """Hand over the column: nothing may be added any more."""
        values, self._values = self._values, None
        assert values is not None
        values.resize(self._rows, refcheck=False)
        return values


def reorder_columns(columns: dict[str, Column], order: NDArray[np.int64]) -> None:
    """Bring the rows of columns into another order, with memory for one column besides."""
    for column in columns.values():
        column[:] = column[order]


def share_empty_columns(columns: dict[str, Column]) -> None:
    """Share one column among those that are all NONE: they become read-only."""
    for name, column in columns.items():
        if len(column) and column.dtype.kind == "i" and column[0] == NONE and (column == NONE).all():
            columns[name] = np.broadcast_to(column[:1].copy(), column.shape)


def select_rows(columns: dict[str, Column], keep: NDArray[np.bool_]) -> None:
    """Drop rows from columns, one column at a time."""
    for name in columns:
        columns[name] = columns[name][keep]
