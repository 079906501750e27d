"""Host time that changes take from a thread, moment by moment."""

from typing import NamedTuple

import numpy as np

from perfkit.analysis.replay.edges import Floats
from perfkit.trace.event_nesting import compute_depths, compute_parents
from perfkit.trace.model import Ints


class RemovedTime(NamedTuple):
    """From each moment of `at_ns` to the next, a `share` of the time is removed; nothing before and after."""

    at_ns: Ints
    share: Floats

    def sum_until(self, times: Ints) -> Floats:
        """The time removed up to each time."""
        if not len(self.at_ns):
            return np.zeros(len(times))
        sums = np.concatenate(([0.0], np.cumsum(np.diff(self.at_ns) * self.share[:-1])))
        result: Floats = np.interp(times, self.at_ns, sums)
        return result

    def get_share_at(self, times: Ints) -> Floats:
        """The share at each time."""
        place = np.searchsorted(self.at_ns, times, side="right") - 1
        result: Floats = np.append(self.share, 0.0)[place]  # before the first (-1) it is the last entry
        return result

    def combine_with(self, other: "RemovedTime") -> "RemovedTime":
        """Combine with another change, which takes its share of the remaining time."""
        at_ns = np.union1d(self.at_ns, other.at_ns)
        return RemovedTime(at_ns, 1.0 - (1.0 - self.get_share_at(at_ns)) * (1.0 - other.get_share_at(at_ns)))


NOTHING = RemovedTime(np.empty(0, np.int64), np.empty(0))


def build_removed_time(begin: Ints, end: Ints, share: Floats) -> RemovedTime:
    """A share of each span of one thread goes (below 0: it takes longer); where several overlap, the largest."""
    order = np.lexsort((-end, begin))
    begin, end, share = begin[order], end[order], share[order]
    parent = compute_parents(np.zeros(len(begin), np.int32), begin, end)
    depth = compute_depths(parent)
    most = share.copy()
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        most[rows] = np.maximum(most[rows], most[parent[rows]])
    more = most - np.append(most, 0.0)[parent]  # without a parent (-1) it is the last entry
    edges = np.concatenate([begin, end])
    at_ns, place = np.unique(edges, return_inverse=True)
    change = np.bincount(place.reshape(-1), weights=np.concatenate([more, -more]), minlength=len(at_ns))
    return RemovedTime(at_ns, np.minimum(np.cumsum(change), 1.0))
