"""What kind of end an exception is."""

import re

import torch

from perfkit.errors import UnavailableError
from perfkit.record import Status

# When an allocation fails: torch's CPU allocator, C++ itself, oneDNN and the operating system; the CUDA driver and
# its libraries, which ask for memory beside torch's allocator.
_OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|not enough memory|std::bad_alloc|Cannot allocate memory"
    r"|could not create a (primitive|memory)|DefaultCPUAllocator"
    r"|(CUDA|HIP) error: out of memory|CU(BLAS|DNN|SPARSE|FFT|SOLVER)_STATUS_ALLOC_FAILED"
)


def status_of(error: BaseException) -> Status:
    """SKIPPED for a technique that cannot act, OUT_OF_MEMORY for any allocator's failure, INTERRUPTED, else FAILED."""
    if isinstance(error, UnavailableError):
        return Status.SKIPPED
    if isinstance(error, KeyboardInterrupt):
        return Status.INTERRUPTED
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return Status.OUT_OF_MEMORY
    if isinstance(error, RuntimeError | OSError) and _OUT_OF_MEMORY.search(str(error)):
        return Status.OUT_OF_MEMORY
    return Status.FAILED


def first_line(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    message = str(error).strip().splitlines()
    return f"{type(error).__name__}: {message[0]}" if message else type(error).__name__
