"""Finds the event of an id where ids repeat."""

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.model import FLOW_KINDS, NONE, Ints, Trace


def find_latest_before(keys: Ints, times: Ints, known_keys: Ints, known_times: Ints) -> Ints:
    """For each key, the position of the last known entry with that key that began by then.

    Ids repeat where several processes share a file and where counters wrap; what an id means began before what
    refers to it. If all that have the key began later (clocks differ), it is the first of them. NONE where there is
    none, and for the key NONE.
    """
    order = np.lexsort((known_times, known_keys))
    ranked = known_keys[order]
    first = np.searchsorted(ranked, keys, "left")
    low, high = first, np.searchsorted(ranked, keys, "right")
    matched = (high > low) & (keys != NONE)
    several = np.flatnonzero(matched & (high - low > 1))
    if len(several):
        low = low.copy()
        low[several] = _bisect_last(known_times[order], times[several], low[several], high[several])
    result = np.full(len(keys), NONE, np.int64)
    result[matched] = order[low[matched]]
    return result


def _bisect_last(sorted_times: Ints, times: Ints, low: Ints, high: Ints) -> Ints:
    """Bisects all ranges at once: the last position in [low, high) whose time is not above, else low."""
    low, high = low.copy(), high.copy()
    while ((high - low) > 1).any():
        middle = (low + high) // 2
        by_then = sorted_times[middle] <= times
        low = np.where(by_then, middle, low)
        high = np.where(by_then, high, middle)
    return low


def match_flows(
    trace: Trace, kind: str, sources: Ints, targets: Ints, target_parent: Ints | None = None
) -> tuple[Ints, Ints]:
    """The events that arrows of a kind connect: rows of `sources` and of `targets` (both indices of events)."""
    flows = trace.flows
    chosen = flows.kind == FLOW_KINDS.index(kind)
    begin, finish = np.flatnonzero(chosen & flows.start), np.flatnonzero(chosen & ~flows.start)
    if not len(begin) or not len(finish):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    start = find_latest_before(flows.id[finish], flows.time_ns[finish], flows.id[begin], flows.time_ns[begin])
    finish, begin = finish[start != NONE], begin[start[start != NONE]]
    source = find_around_times(trace, sources, flows.thread[begin], flows.time_ns[begin])
    target = find_around_times(trace, targets, flows.thread[finish], flows.time_ns[finish], target_parent)
    both = (source != NONE) & (target != NONE)
    return source[both], target[both]


def map_processes(trace: Trace) -> NDArray[np.int32]:
    """The process number of each entry of `trace.threads`."""
    numbers: dict[str, int] = {}
    process_of = [numbers.setdefault(process, len(numbers)) for process, _ in trace.threads]
    return np.asarray(process_of, np.int32)
