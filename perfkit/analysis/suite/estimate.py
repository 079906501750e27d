"""Figures over processes. The process is the unit of statistics: steps of one process are not independent.

On a shared machine wall time varies more between processes than within one, and consecutive steps are
correlated, so that a test over pooled steps calls every second identical pair different. One number per process
(the median of its steps) is what enters any interval.
"""

import math
from collections.abc import Sequence
from statistics import median

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.core.sampling import LEVEL, compute_log_interval


def estimate_over_processes(
    per_process: Sequence[float], unit: str, source: str, how: str = "measured"
) -> MedianEstimate:
    """The median over processes of a positive figure, with a t-interval on its logarithm.

    The interval is Student's for the mean of the logarithms, exp(mean +- t(n-1) s / sqrt(n)), since durations
    are positive and their variation is relative. Where very skewed figures leave the median outside of it, it is
    extended to the median. With one process there is no interval.
    """
    value = median(per_process)
    interval = compute_log_interval([math.log(figure) for figure in per_process])
    return MedianEstimate(
        value=value,
        unit=unit,
        per_process=tuple(per_process),
        low=None if interval is None else min(value, math.exp(interval[0])),
        high=None if interval is None else max(value, math.exp(interval[1])),
        level=LEVEL,
        how=how,
        source=source,
    )
