"""Pins all processes of a round to the same cores, so that a slower core slows them all.

A process would otherwise stay on its core, and the cores of a shared machine differ by their other load, here or on the
host of a virtual machine. docs/check-statistics.md has the effect on the spread.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfkit.devices.machine.machine import find_numa_node


@dataclass(frozen=True)
class RankCores:
    """Cores of one rank: `near` during set-up, all cores that share memory with `own`, then `own`."""

    own: frozenset[int]
    near: frozenset[int]


def choose_round_cores(
    usable: Sequence[int],
    ranks: int,
    threads: int | None,
    index: int,
    node_of: Callable[[int], int] = find_numa_node,
) -> tuple[RankCores, ...]:
    """Choose `threads` cores for each rank, the same for all teams; empty if they cannot be divided.

    That is the case without `threads`, when each process uses all cores, or with too few cores for all ranks. Rounds
    rotate through the cores by `index`.
    """
    if threads is None or ranks * threads > len(usable):
        return ()
    groups = len(usable) // (ranks * threads)
    first = index % groups * ranks * threads
    chosen = [frozenset(usable[first + rank * threads :][:threads]) for rank in range(ranks)]
    return tuple(RankCores(own, _find_near_cores(own, usable, node_of)) for own in chosen)


def bind_to_cores(process: int, cores: frozenset[int]) -> None:
    """Let all threads of this process, and those that they start, run on `cores` only. On Linux; elsewhere nothing."""
    if sys.platform != "linux":
        return
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), cores)


def _find_near_cores(own: frozenset[int], usable: Sequence[int], node_of: Callable[[int], int]) -> frozenset[int]:
    nodes = {node_of(core) for core in own}
    return frozenset(core for core in usable if node_of(core) in nodes)
