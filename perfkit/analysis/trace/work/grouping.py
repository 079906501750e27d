"""Groups of rows with equal keys, by sorting columns: no Python per row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.compact import Compact, compact

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Groups:
    """`of` is each row's group, `first` the first row of each group."""

    of: Compact
    first: Ints

    def __len__(self) -> int:
        return len(self.first)

    def sums(self, values: Floats | Ints | NDArray[np.bool_]) -> Floats:
        """The sum of a column in each group; NaN where any of its values is."""
        sums: Floats = np.bincount(self.of, weights=values, minlength=len(self)).astype(np.float64)
        return sums

    def counts(self) -> Ints:
        """The number of rows of each group."""
        return np.bincount(self.of, minlength=len(self))


def group(*keys: Compact) -> Groups:
    """Group rows by the values of all key columns."""
    code, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        low = int(key.min(initial=0))
        width = int(key.max(initial=0)) - low + 1
        if size * width >= 2**62:  # renumber what there is so far, so that the code fits
            distinct, code = np.unique(code, return_inverse=True)
            size = len(distinct)
        code, size = code * width + (key.astype(np.int64, copy=False) - low), size * width
    _, first, of = np.unique(code, return_index=True, return_inverse=True)
    return Groups(compact(of), first.astype(np.int64))
