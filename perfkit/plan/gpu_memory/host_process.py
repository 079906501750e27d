"""Estimates a CPU process's memory outside torch's allocator, from this process, which has a run's imports."""

from functools import lru_cache
from typing import Any

import psutil

# Per compute thread: a stack (`ulimit -s`), and an arena of glibc's malloc (HEAP_MAX_SIZE).
_ADDRESSES_OF_A_THREAD = (8 + 64) * 2**20


def estimate_process_bytes(threads: int, *, addresses: bool) -> int:
    """Non-tensor bytes of a rank's process: address space with `addresses`, else resident memory."""
    memory = _read_process_memory()
    return int(memory.vms + threads * _ADDRESSES_OF_A_THREAD if addresses else memory.rss)


@lru_cache(maxsize=1)
def _read_process_memory() -> Any:
    """Process memory at the first call, so plans' own memory does not count."""
    return psutil.Process().memory_info()
