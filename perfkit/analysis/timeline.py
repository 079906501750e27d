"""Where a step's wall time goes: parts that never overlap and sum to the step.

At every moment of a step one thing counts: arithmetic first, then communication, then copies. Where none of these ran
the step waited for the host: for Python, for dispatch and launch, for calls too small to be bound by anything else.
Communication and copies that ran beside arithmetic cost nothing and are not shown: what is shown is exposed.
"""

from collections.abc import Mapping

from perfkit.analysis.intervals import EMPTY, Intervals, clipped, difference, joined, length
from perfkit.analysis.result import TimeShare

COMPUTE_BOUND = "compute-bound"
MEMORY_BOUND = "memory-bound"
UNMODELLED = "unmodelled"
COMMUNICATION = "communication"
COPIES = "copies"
LATENCY_BOUND = "latency-bound"  # the device ran calls too small to be bound by arithmetic or bytes
HOST = "host"  # idle with nothing to do: the host had launched nothing; on a CPU also dispatch and Python
OTHER_IDLE = "other idle"  # idle although something was launched: latency, dependencies; or it is not known why

# In the order in which overlapping work is counted.
PRIORITY = (COMPUTE_BOUND, MEMORY_BOUND, UNMODELLED, COMMUNICATION, COPIES)


def split(window: Intervals, work: Mapping[str, Intervals], steps: int) -> tuple[TimeShare, ...]:
    """Split the time of `window` among the categories of `work`; the rest is the host's.

    Args:
        window: the steps' intervals.
        work: per category of `PRIORITY`, when it was going on, on whatever thread or stream.
        steps: the number of steps in the window.

    Returns shares that sum to 1, with seconds per step; empty for an empty window.
    """
    total = length(window)
    if total <= 0:
        return ()
    covered = EMPTY
    seconds: dict[str, float] = {}
    for category in PRIORITY:
        mine = clipped(work.get(category, EMPTY), window)
        seconds[category] = length(difference(mine, covered))
        covered = joined(covered, mine)
    seconds[HOST] = max(0.0, total - sum(seconds.values()))
    return tuple(
        TimeShare(category=category, seconds=value / steps, share=value / total) for category, value in seconds.items()
    )
