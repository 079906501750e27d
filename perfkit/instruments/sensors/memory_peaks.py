"""Reads the peaks kept by allocators and the system."""

import resource
import sys
from typing import Any

import torch

from perfkit.core.allocations import SHARED_POOL, PoolId, is_graph_pool
from perfkit.core.record.memory import MemoryPeaks
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.sensors.sensors import Sensors


def read_memory_peaks(device: torch.device, sensors: Sensors | None, over: str) -> MemoryPeaks:
    """Peaks so far of the device's allocator and of the process; `over` names the allocator's period."""
    rss = make_measurement(read_peak_rss_bytes(), "bytes", "peak resident set (getrusage)")
    accelerator = get_accelerator(device)
    name = accelerator.name
    if not accelerator.has_memory_statistics:
        no_statistics = Unknown(
            reason=f"the {name} allocator keeps no statistics; the memory recording counts its events"
        )
        return MemoryPeaks(
            allocated=no_statistics,
            reserved=Unknown(reason=f"the {name} allocator reserves nothing"),
            driver_used=Unknown(reason="no device memory"),
            rss=rss,
        )
    source, pools = f"{name} caching allocator, peak {over}", sum_unused_graph_pools(device)
    with_pools = f"{source}, plus private pools of CUDA graphs" if pools else source
    memory = sensors.memory() if sensors else None
    return MemoryPeaks(
        allocated=make_measurement(accelerator.runtime.max_memory_allocated(device) + pools, "bytes", with_pools),
        reserved=make_measurement(accelerator.runtime.max_memory_reserved(device), "bytes", source),
        driver_used=Unknown(reason="NVML does not report it")
        if memory is None
        else make_measurement(memory.used, "bytes", "NVML, all processes of the device, after the timed steps"),
        rss=rss,
    )


def sum_unused_graph_pools(device: torch.device) -> int:
    """Sum the unused bytes of CUDA graphs' private pools, as the allocator counts them; 0 for devices without graphs.

    Graph replays (`torch.compile(mode="reduce-overhead")`) use them without the allocator's knowledge. Pools of the
    program (`torch.cuda.MemPool`) are fully known.
    """
    if not get_accelerator(device).has_graphs:
        return 0
    index = torch.cuda.current_device() if device.index is None else device.index
    private: dict[PoolId, list[dict[str, Any]]] = {}
    for segment in torch.cuda.memory_snapshot():
        pool: PoolId = tuple(segment["segment_pool_id"])
        if segment["device"] == index and pool != SHARED_POOL:
            private.setdefault(pool, []).append(segment)
    return sum(
        segment["total_size"] - segment["allocated_size"]
        for pool, segments in private.items()
        if is_graph_pool(pool, [segment.get("stream") for segment in segments])
        for segment in segments
    )


def read_peak_rss_bytes() -> int:
    """The process's peak resident set so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB
