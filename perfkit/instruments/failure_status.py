"""The status of a run that an exception ended: skipped, out of memory, interrupted or failed."""

import re

import torch

from perfkit.core.errors import UnavailableError
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.texts.error_text import cap_line

# What is said when an allocation fails.
_SAID = (
    # On the host: torch's CPU allocator, C++ itself, oneDNN, the operating system.
    r"can't allocate memory|not enough memory|std::bad_alloc|Cannot allocate memory",
    r"could not create a (primitive|memory)|DefaultCPUAllocator",
    # torch's CUDA allocator, where its exception was wrapped in another (torch.compile's).
    r"(CUDA|HIP) out of memory",
    # The runtime and the driver (`C10_CUDA_CHECK`, `C10_CUDA_DRIVER_CHECK`), and Triton's launcher, which asks the
    # driver. Triton's "out of resource: shared memory" is another thing: a kernel that fits on no such GPU.
    r"(CUDA|HIP)( driver)? error: out of memory|hipErrorOutOfMemory",
    r"Triton Error \[(CUDA|HIP)\]: *(Code: \d+, \w+: )?out of memory",
    # Libraries that allocate outside torch's allocator, with their states' names in `ATen/cuda/Exceptions.h`; cuDNN 9
    # has new ones. NOT_INITIALIZED often means too little memory, but has many other causes.
    r"(CU|HIP)(BLAS|DNN|SPARSE|SOLVER)_STATUS_ALLOC_FAILED|(CU|HIP)FFT_ALLOC_FAILED|miopenStatusAllocFailed",
    r"CUDNN_STATUS_INTERNAL_ERROR_(HOST|DEVICE)_ALLOCATION_FAILED",
    # NCCL's last warning (`alloc.h`, `CUDACHECK`), newer ones with the number of the error.
    r"Failed to CUDA (host )?(m|c)?alloc( async)? \d+ bytes|Cuda failure (2 )?'out of memory'",
)
_OUT_OF_MEMORY = re.compile("|".join(_SAID))


def classify_error(error: BaseException) -> RunStatus:
    """SKIPPED for a technique that cannot act, OUT_OF_MEMORY for any allocator's failure, INTERRUPTED, else FAILED."""
    if isinstance(error, UnavailableError):
        return RunStatus.SKIPPED
    if isinstance(error, KeyboardInterrupt):
        return RunStatus.INTERRUPTED
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return RunStatus.OUT_OF_MEMORY
    if isinstance(error, RuntimeError | OSError) and _OUT_OF_MEMORY.search(str(error)):
        return RunStatus.OUT_OF_MEMORY
    return RunStatus.FAILED


def find_allocation_line(message: str) -> str:
    """The line of a message that names the failed allocation, else the first; NCCL puts it after its activity."""
    lines = message.strip().splitlines()
    return cap_line(next((line for line in lines if _OUT_OF_MEMORY.search(line)), lines[0] if lines else ""))
