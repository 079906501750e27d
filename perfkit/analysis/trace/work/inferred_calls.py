"""The calls behind kernels of which no op was recorded, known from equal kernels elsewhere in the same trace.

A kernel that was launched before the recording began, or from a replayed CUDA graph, has no op. Equal kernels have the
same name and launch geometry (grid, block, shared memory) and run between equal neighbors on their stream. Where
several such kernels have an op, and all of them are of one and the same call (op, shapes, dtypes, scalars), so is this
one. What is ambiguous, or was seen only once, stays without a call.

ROCm's tracer records no geometry. In a trace without any the name, more neighbors and a closer time decide.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.trace.compact_ints import Compact
from perfkit.trace.model import NONE, Ints, Small

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

# The source of an inferred cost, and what is added to the name of its op.
AS_ELSEWHERE = "inferred from the same kernel elsewhere in the trace"
INFERRED = " (inferred)"

# Equal neighbors required on each side: few at first, more where several calls launch such kernels.
_NEIGHBORS = (2, 3, 5)
# A call whose sizes are data (of jagged tensors) differs from one time to the next, so that one time tells nothing.
_LEAST_SEEN = 2
# Sizes that do not show in the geometry (the inner dimension of a product) show in the time.
_ALIKE = 2.0

# The same without recorded geometry: only time and context show sizes.
_NEIGHBORS_ALONE = (3, 5)
_ALIKE_ALONE = 1.25


def infer_calls(
    name: Small, geometry: Small, lane: Compact, busy_ns: Ints, is_work: Flags, owner: Compact, call: Compact
) -> Compact:
    """`call`, completed for kernels whose op (`owner`) is not known. Columns, one row a piece, in the order of time.

    A kernel that took less than half or more than twice the median time of its like is left out; by a quarter where no
    geometry was recorded.
    """
    alone = bool((geometry == NONE).all())
    usable = is_work & (alone | (geometry != NONE))
    wanted = usable & (owner == NONE)
    if not wanted.any():
        return call
    neighbors, closeness = (_NEIGHBORS_ALONE, _ALIKE_ALONE) if alone else (_NEIGHBORS, _ALIKE)
    result = call.copy()
    kind = group_rows(name, geometry).of
    for like in _match_contexts(kind, lane, neighbors):
        known = np.flatnonzero(usable & (owner != NONE))
        asked = np.flatnonzero(wanted & (result == NONE))
        if not len(known) or not len(asked):
            break
        only, typical_ns = _find_only_calls(like[known], call[known], busy_ns[known], int(like.max()) + 1)
        ratio = busy_ns[asked] / np.maximum(typical_ns[like[asked]], 1.0)
        result[asked] = np.where((ratio <= closeness) & (ratio >= 1 / closeness), only[like[asked]], NONE)
    return result


def fill_inferred_values(values: Floats, name: Small, geometry: Small, call: Compact, inferred: Flags) -> Floats:
    """A column whose values of inferred kernels are the mean of those of the same kernel for the same call."""
    if not inferred.any():
        return values
    like = group_rows(name, geometry, call).of
    known = ~inferred
    count = np.bincount(like[known], minlength=int(like.max()) + 1)
    total = np.bincount(like[known], values[known], len(count))
    mean = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return np.where(inferred, mean[like], values)


def _match_contexts(kind: Compact, lane: Compact, neighbors: tuple[int, ...]) -> Iterator[Compact]:
    """Number pieces by equal context: alike with like neighbors, for growing numbers of neighbors."""
    order = np.argsort(lane, kind="stable")
    stream, mine = lane[order], kind[order]
    keys = [mine]
    for distance in range(1, min(neighbors[-1], len(mine) - 1) + 1):
        same = stream[distance:] == stream[:-distance]
        before, after = np.full(len(mine), NONE, mine.dtype), np.full(len(mine), NONE, mine.dtype)
        before[distance:] = np.where(same, mine[:-distance], NONE)
        after[:-distance] = np.where(same, mine[distance:], NONE)
        keys += [before, after]
        if distance in neighbors:
            contexts = group_rows(*keys).of
            result = np.empty_like(contexts)
            result[order] = contexts
            yield result


def _find_only_calls(like: Compact, call: Compact, busy_ns: Ints, count: int) -> tuple[Ints, Floats]:
    """For each number, the call that all of its pieces share, else NONE, and the median of their times."""
    order = np.lexsort((busy_ns, like))
    like, call, busy_ns = like[order], call[order], busy_ns[order]
    first = np.flatnonzero(np.append(True, like[1:] != like[:-1]))
    low, high = np.minimum.reduceat(call, first), np.maximum.reduceat(call, first)
    end = np.append(first[1:], len(like))
    only, typical = np.full(count, NONE, np.int64), np.full(count, np.nan)
    only[like[first]] = np.where((low == high) & (end - first >= _LEAST_SEEN), low, NONE)
    typical[like[first]] = busy_ns[(first + end - 1) // 2]
    return only, typical
