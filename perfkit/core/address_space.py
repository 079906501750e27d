"""Limits the address space that this process may take, for a while."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def limit_address_space(more: int) -> Iterator[None]:
    """Let this process, all its threads, take `more` bytes of addresses than now and no more: allocations fail then.

    On Linux; elsewhere nothing is bounded.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = psutil.Process().memory_info().vms + more
    limits = [limit for limit in (soft, hard, wanted) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
