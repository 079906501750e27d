"""The peaks that an allocator and the system keep by themselves."""

import resource
import sys

import torch

from perfkit.instruments.sensors import Sensors
from perfkit.record import MemoryPeaks, Unknown, measured


def memory_peaks(device: torch.device, sensors: Sensors | None, over: str) -> MemoryPeaks:
    """The peaks so far of the device's allocator and of the process; `over` says since when the allocator counts."""
    rss = measured(peak_rss_bytes(), "bytes", "the process's largest resident set (getrusage)")
    if device.type != "cuda":
        no_statistics = Unknown(reason="the CPU allocator keeps no statistics; the memory pass counts its events")
        return MemoryPeaks(
            allocated=no_statistics,
            reserved=Unknown(reason="the CPU allocator reserves nothing"),
            driver_used=Unknown(reason="no device memory"),
            rss=rss,
        )
    source, pools = f"CUDA caching allocator, peak {over}", unused_in_private_pools(device)
    with_pools = f"{source}, and what private pools hold besides" if pools else source
    memory = sensors.memory() if sensors else None
    return MemoryPeaks(
        allocated=measured(torch.cuda.max_memory_allocated(device) + pools, "bytes", with_pools),
        reserved=measured(torch.cuda.max_memory_reserved(device), "bytes", source),
        driver_used=Unknown(reason="NVML does not report it")
        if memory is None
        else measured(memory.used, "bytes", "NVML, all processes of the device, after the timed steps"),
        rss=rss,
    )


def unused_in_private_pools(device: torch.device) -> int:
    """What private pools hold and have given to nobody, as the allocator counts it.

    Those of CUDA graphs (`torch.compile(mode="reduce-overhead")`) are in use whenever a graph is replayed, of which the
    allocator is not told.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    private = (
        segment
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == index and tuple(segment["segment_pool_id"]) != (0, 0)
    )
    return sum(segment["total_size"] - segment["allocated_size"] for segment in private)


def peak_rss_bytes() -> int:
    """The process's largest resident set so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB
