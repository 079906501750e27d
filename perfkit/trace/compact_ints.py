"""Stores integers in 32 bits where they fit, as nearly all numbers of a trace do except times."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of 32 bits where these hold all of a column, else of 64: no product or sum of them may be taken as they are.
Compact = NDArray[np.signedinteger[Any]]

_NARROW = np.iinfo(np.int32)


def can_fit_int32(values: Compact) -> bool:
    """True if all values fit 32 bits."""
    return len(values) == 0 or bool(values.min() >= _NARROW.min and values.max() <= _NARROW.max)


def compact_ints(values: Compact) -> Compact:
    """The values in 32 bits where these hold all of them."""
    return values.astype(np.int32, copy=False) if can_fit_int32(values) else values
