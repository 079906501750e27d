"""Counts what the caching allocator did between two moments: calls of the driver, retries, failed requests."""

from collections.abc import Mapping
from typing import Any

import torch

from perfkit.devices.accelerator import get_accelerator

# Names of facts -> the counter of torch's allocator (`torch.cuda.memory_stats`, event counters).
COUNTERS = {
    "allocation_retries": "num_alloc_retries",
    "caught_out_of_memory": "num_ooms",
    "device_allocations": "num_device_alloc",
    "device_frees": "num_device_free",
}


def read_allocator_calls(device: torch.device) -> dict[str, int]:
    """The counters since the process began, by the names of facts; empty for an allocator that does not count them."""
    accelerator = get_accelerator(device)
    if not accelerator.has_memory_statistics:
        return {}
    statistics: Mapping[str, Any] = accelerator.runtime.memory_stats_as_nested_dict(device)
    return {name: int(statistics[counter]) for name, counter in COUNTERS.items() if counter in statistics}


def subtract_allocator_calls(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, float]:
    """The facts of the time between two readings; of counters that both have, and that no reset has lowered."""
    return {
        name: float(count - before[name]) for name, count in after.items() if name in before and count >= before[name]
    }
