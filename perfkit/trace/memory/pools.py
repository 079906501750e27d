"""Classifies a caching allocator's private pools: CUDA graphs' or the program's."""

from collections.abc import Iterable, Mapping
from typing import Any

from perfkit.core.allocations import SHARED_POOL, PoolId, is_graph_pool

Kinds = Mapping[PoolId, bool]  # whether a pool is a graph's


def classify_pools(segments: Iterable[Mapping[str, Any]], entries: Iterable[Mapping[str, Any]]) -> Kinds:
    """For each private pool in a device's snapshot, whether it is a CUDA graph's."""
    streams: dict[PoolId, set[int | None]] = {}
    for key, rows in (("segment_pool_id", segments), ("pool_id", entries)):
        for row in rows:
            pool = parse_pool(row, key)
            if pool != SHARED_POOL:
                streams.setdefault(pool, set()).add(row.get("stream"))
    return {pool: is_graph_pool(pool, used) for pool, used in streams.items()}


def parse_pool(row: Mapping[str, Any], key: str) -> PoolId:
    """The pool that a segment or an entry names, else the shared one: older versions of torch name none."""
    pool = row.get(key)
    if not pool:
        return SHARED_POOL
    first, second = pool
    return int(first), int(second)
