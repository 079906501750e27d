"""Parses the failed request from an out-of-memory exception."""

import re
import traceback
from pathlib import Path

import torch

from perfkit.core.allocations import FailedRequest
from perfkit.instruments.failure_status import find_allocation_line

# "Tried to allocate 2.00 GiB" (CUDA and HIP), "you tried to allocate 123 bytes" (torch's CPU allocator),
# "Unable to allocate 7.45 GiB for an array" (NumPy), "unable to mmap 4096 bytes from file" (storages in files),
# "Failed to CUDA calloc async 608 bytes" (NCCL).
_REQUEST = re.compile(r"(?:to allocate|to mmap|to CUDA [a-z ]+) (\d+(?:\.\d+)?) (bytes|[KMGTPE]iB)")
_UNITS = {unit: 1024**power for power, unit in enumerate(("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}
_TORCH = Path(torch.__file__).parent
_RECORDERS = {Path(__file__).parents[1], Path(__file__).parents[2] / "measure"}


def parse_failed_request(error: BaseException, *, phase: str = "", step: int | None = None) -> FailedRequest:
    """Parse the failed request from an error's message and traceback.

    CUDA's allocator rounds the size to two decimals of its unit. `std::bad_alloc`, oneDNN, cuBLAS and others state
    none: `bytes` is then None. `line` is the innermost line outside of torch; for failures in backward, the call of
    backward.
    """
    message = find_allocation_line(str(error)) or type(error).__name__
    match = _REQUEST.search(message)
    return FailedRequest(
        bytes=None if match is None else round(float(match[1]) * _UNITS[match[2]]),
        message=message,
        phase=phase,
        step=step,
        line=_find_line(error),
    )


def _find_line(error: BaseException) -> str:
    """`file.py:123 function` of the innermost frame outside of torch and the recorder; "" for none."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if not ({_TORCH} | _RECORDERS) & set(Path(frame.filename).parents)]
    return f"{Path(mine[-1].filename).name}:{mine[-1].lineno} {mine[-1].name}" if mine else ""
