"""Checks what CUDA's allocator can record in this process: torch has several, and the program may use it already."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from perfkit.devices.accelerator import is_cuda

# The only one that reports allocations to the profiler and keeps a history (c10/cuda/CUDACachingAllocator.cpp):
# CUDAMallocAsyncAllocator.cpp does neither, and raises on requests for a history.
_NATIVE = "native"


def explain_unreported(device: torch.device) -> str | None:
    """Explain why no recorder sees allocations on `device`; None if one does."""
    if not is_cuda(device):
        return None
    backend = torch.cuda.get_allocator_backend()
    return None if backend == _NATIVE else f"the allocator {backend} reports no allocations to torch's profiler"


def explain_taken_history() -> str | None:
    """Explain why the native allocator's history must not be touched; None if unused.

    The process has one for all devices: starting or stopping it clears others' recordings and changes their options
    (`DeviceCachingAllocator::recordHistory`). CUDA must be initialized.
    """
    is_on = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    if is_on is None:
        return "this torch version cannot tell if the program records its own history"
    return "the program records its own history, which is left unchanged" if is_on() else None


@contextmanager
def watch_history_requests(memory: Any) -> Iterator[list[str]]:
    """Watch the program's requests to the allocator's history: each call appends a line to the list.

    Args:
        memory: `torch.cuda.memory`, through which programs ask.
    """
    requests: list[str] = []
    original = memory._record_memory_history

    @functools.wraps(original)
    def noticed(*args: Any, **kwargs: Any) -> Any:
        requests.append("the program started or stopped its own recording, which is left unchanged")
        return original(*args, **kwargs)

    memory._record_memory_history = noticed
    try:
        yield requests
    finally:
        memory._record_memory_history = original
