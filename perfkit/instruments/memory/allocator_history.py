"""Records the CUDA caching allocator's history of a few steps: requests, frees and segments, with Python stacks.

Allocations are not tagged with `torch.cuda.memory._set_memory_metadata`: tags are per thread, and autograd's backward
threads would have none. Steps and phases come from the ranges open during recording (`global_record_annotations`),
which all threads see.
"""

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch
from isal import igzip

from perfkit.core.files import write_bytes
from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.memory.allocator_access import (
    explain_taken_history,
    explain_unreported,
    watch_history_requests,
)

_log = logging.getLogger(__name__)

# About 100 bytes per frame and tens of frames per entry: at most some hundred MB of JSON, before compression.
MAX_ENTRIES = 200_000
_COMPRESSION = 1  # igzip level: the fastest already shrinks repeated frames by a factor of tens


@contextmanager
def record_allocator_history(
    path: Path,
    device: torch.device,
    *,
    max_entries: int = MAX_ENTRIES,
    tell: Callable[[str], None] = _log.warning,
) -> Iterator[None]:
    """Record the allocator's history while the body runs and write its snapshot to `path` as JSON (gzip).

    The file holds the result of `torch.cuda.memory._snapshot()`, with the last `max_entries` of the history. It is
    always written, also if the body runs out of memory. Where the allocator keeps no history, as on a CPU, the body
    just runs. The same holds if the program records its own history: `tell` receives the reason, and nothing is
    written.
    """
    if not get_accelerator(device).has_allocator_history:
        yield
        return
    refusal = explain_unreported(device) or explain_taken_history()
    if refusal is not None:
        tell(_explain_missing_history(refusal))
        yield
        return
    memory: Any = torch.cuda.memory
    memory._record_memory_history(enabled="all", **_select_options(memory._record_memory_history, max_entries))
    with watch_history_requests(memory) as requests:
        try:
            yield
        finally:
            if requests:
                tell(_explain_missing_history(requests[0]))
            else:
                _write_and_stop(memory, path)


def _write_and_stop(memory: Any, path: Path) -> None:
    try:
        snapshot = memory._snapshot()
    finally:
        memory._record_memory_history(enabled=None)
    write_bytes(path, igzip.compress(msgspec.json.encode(snapshot), compresslevel=_COMPRESSION))


def _explain_missing_history(reason: str) -> str:
    return (
        "memory was recorded from torch.profiler's events only, without the allocator's history (no segments, no "
        f"fragmentation): {reason}"
    )


def _select_options(record: Any, max_entries: int) -> dict[str, object]:
    """The options that this torch version supports."""
    wanted = {
        "context": "alloc",
        "stacks": "python",
        "max_entries": max_entries,
        "clear_history": True,
        "global_record_annotations": True,
    }
    known = inspect.signature(record).parameters
    return {name: value for name, value in wanted.items() if name in known}
