"""The spread of the times of calls alike: their number, the shortest, the median and the 99th percentile."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import Ints

Floats = NDArray[np.float64]

_PERCENTILE = 0.99


class CallSpread(NamedTuple):
    """Columns, one row a group of calls; seconds, NaN for a group without calls.

    Between two calls percentiles are interpolated linearly, as NumPy does.
    """

    calls: Ints
    least_s: Floats
    median_s: Floats
    p99_s: Floats


def measure_spread(group: Ints, time_ns: Ints, groups: int) -> CallSpread:
    """The spread of calls, of which each has a group."""
    order = np.lexsort((time_ns, group))
    ranked = time_ns[order] / 1e9
    count = np.bincount(group, minlength=groups)
    first = np.concatenate(([0], np.cumsum(count)[:-1]))

    def quantile(share: float) -> Floats:
        place = share * np.maximum(count - 1, 0)
        low = first + np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, first + np.maximum(count - 1, 0))
        known = count > 0
        result = np.full(groups, np.nan)
        lower, upper = ranked[low[known]], ranked[high[known]]
        result[known] = lower + (upper - lower) * (place - np.floor(place))[known]
        return result

    return CallSpread(count, quantile(0.0), quantile(0.5), quantile(_PERCENTILE))
