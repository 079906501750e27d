"""Groups of rows with equal keys, by sorting columns: no Python per row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.compact_ints import Compact, compact_ints

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RowGroups:
    """`of` is each row's group, `first` the first row of each group."""

    of: Compact
    first: Ints

    def __len__(self) -> int:
        return len(self.first)

    def sum_by_group(self, values: Floats | Ints | NDArray[np.bool_]) -> Floats:
        """The sum of a column in each group; NaN where any of its values is."""
        sums: Floats = np.bincount(self.of, weights=values, minlength=len(self)).astype(np.float64)
        return sums

    def count_by_group(self) -> Ints:
        """The number of rows of each group."""
        return np.bincount(self.of, minlength=len(self))


def group_rows(*keys: Compact) -> RowGroups:
    """Group rows by the values of all key columns."""
    code, size = np.zeros(len(keys[0]), np.int64), 1
    few = 2 * len(code) + 1024
    for key in keys:
        low = int(key.min(initial=0))
        width = int(key.max(initial=0)) - low + 1
        if width == 1:
            continue
        if size * width >= 2**62:  # renumber so that the code fits
            distinct, code = np.unique(code, return_inverse=True)
            size = len(distinct)
        elif 1 < size <= few < size * width:
            code, size = _renumber_codes(code, size)
        code, size = code * width + (key.astype(np.int64, copy=False) - low), size * width
    if size > few:
        _, first, of = np.unique(code, return_index=True, return_inverse=True)
        return RowGroups(compact_ints(of), first.astype(np.int64))
    of, count = _renumber_codes(code, size)
    first = np.empty(count, np.int64)
    first[of[::-1]] = np.arange(len(of) - 1, -1, -1)  # of several rows the last that is written stays
    return RowGroups(compact_ints(of), first)


def _renumber_codes(code: Ints, size: int) -> tuple[Ints, int]:
    """Renumber codes below `size` by occurrence, keeping their order, without sorting; returns their number, too."""
    occurs = np.zeros(size, np.bool_)
    occurs[code] = True
    number = np.cumsum(occurs) - 1
    return number[code], int(number[-1]) + 1
