"""Counts the launches of a trace that have no kernel, from its JSON alone.

An oracle for perfkit's count of lost kernels: it shares no code with it and needs none of its packages.
CUPTI from 12.6u2 until before 13.1 loses or zeroes kernel records at the head of a profiling session (pytorch#192021).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

LAUNCHES = frozenset(
    ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel",
     "hipLaunchKernel", "hipExtLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel")
)  # fmt: skip


class Lost(NamedTuple):
    """Numbers of launches, of those without a recorded kernel, and of those whose kernel has no time."""

    launches: int
    without_kernel: int
    without_time: int

    @property
    def share(self) -> float:
        return (self.without_kernel + self.without_time) / self.launches


def count_lost_kernels(events: Iterable[Mapping[str, Any]]) -> Lost:
    """Count the lost kernels of one trace's events."""
    launched: set[int] = set()
    timed: set[int] = set()
    untimed: set[int] = set()
    for event in events:
        correlation = event.get("args", {}).get("correlation")
        if event.get("ph") != "X" or correlation is None:
            continue
        if event["name"] in LAUNCHES:
            launched.add(correlation)
        elif event.get("cat") == "kernel":
            (timed if event["dur"] > 0 and event["ts"] > 0 else untimed).add(correlation)
    return Lost(len(launched), len(launched - timed - untimed), len(launched & untimed - timed))
