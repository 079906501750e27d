"""Snapshots against an allocator whose counters are known."""

import gzip
import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.allocations import Allocations
from perfkit.errors import PerfkitError
from perfkit.trace.memory.snapshot import read_snapshot, snapshot_memory
from tests.fixtures.caching_allocator import CachingAllocator


def allocated(result: Allocations) -> list[int]:
    """The allocator's count after each event."""
    start = sum(block.size_bytes for block in result.known) + result.unexplained_bytes
    return (start + np.cumsum(result.size)).tolist()


def reserved(result: Allocations) -> int:
    return int(result.reserved.size.sum())


def only(snapshot: dict[str, Any]) -> Allocations:
    (result,) = snapshot_memory(snapshot, "x").allocations
    return result


SIZES = st.one_of(st.integers(1, 4096), st.integers(1 << 19, 3 << 20), st.integers(1 << 20, 30 << 20))
ACTIONS = st.lists(st.tuples(st.integers(0, 9), SIZES, st.integers(0, 1 << 30)), max_size=80)


def play(allocator: CachingAllocator, actions: list[tuple[int, int, int]], live: list[int], waiting: list[int]) -> None:
    for kind, size, which in actions:
        if kind < 5:
            live.append(allocator.malloc(size))
        elif kind < 8 and live:
            allocator.free(live.pop(which % len(live)))
        elif kind == 8 and live:
            address = live.pop(which % len(live))
            allocator.free(address, waits=True)
            waiting.append(address)
        elif waiting:
            allocator.complete(waiting.pop(which % len(waiting)))
        else:
            allocator.empty_cache()


@given(ACTIONS)
def test_every_moment_is_the_allocators_own_count(actions: list[tuple[int, int, int]]) -> None:
    allocator = CachingAllocator()
    play(allocator, actions, [], [])
    if allocator.trace:
        result = only(allocator.snapshot())
        assert allocated(result) == allocator.history
        assert reserved(result) == allocator.reserved


@given(ACTIONS, ACTIONS)
def test_a_history_that_begins_late_ends_balanced(before: list[Any], after: list[Any]) -> None:
    allocator, live, waiting = CachingAllocator(), [], []
    allocator.recording = False
    play(allocator, before, live, waiting)
    allocator.recording = True
    play(allocator, after, live, waiting)
    if allocator.segments:
        result = only(allocator.snapshot())
        assert reserved(result) == allocator.reserved
        if len(result):
            assert allocated(result)[-1] == allocator.allocated
