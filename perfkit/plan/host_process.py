"""Memory of a process on a CPU beside torch's allocator, as this one takes it: it has imported what a run imports."""

from functools import lru_cache
from typing import Any

import psutil

# Of each thread that computes: a stack as `ulimit -s` has it, and an arena of glibc's malloc (HEAP_MAX_SIZE).
_ADDRESSES_OF_A_THREAD = (8 + 64) * 2**20


def estimate_process_bytes(threads: int, *, addresses: bool) -> int:
    """Bytes of a rank's process beside tensors: of its `addresses`, or else what of it is resident in memory."""
    taken = _read_process_memory()
    return int(taken.vms + threads * _ADDRESSES_OF_A_THREAD if addresses else taken.rss)


@lru_cache(maxsize=1)
def _read_process_memory() -> Any:
    """As it is at the first call: what plans take themselves is no part of a run."""
    return psutil.Process().memory_info()
