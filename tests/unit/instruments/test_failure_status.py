"""Which exception means what; the messages of torch's allocators are real ones."""

import pytest
import torch

from perfkit.core.errors import UnavailableError
from perfkit.core.record.rank_record import RunStatus
from perfkit.instruments.failure_status import classify_error, find_allocation_line


def nccl(said: str) -> str:
    """As `C10D_NCCL_CHECK` puts it together."""
    return (
        "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled cuda error (run with "
        "NCCL_DEBUG=INFO for details), NCCL version 2.27.5\nncclUnhandledCudaError: Call to CUDA function failed.\n"
        f"Last error:\n{said}"
    )


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously",
        "CUDA driver error: out of memory",
        "HIP error: out of memory",
        "HIP error: hipErrorOutOfMemory",
        "Triton Error [CUDA]: out of memory",
        "Triton Error [HIP]:  Code: 2, Messsage: out of memory",  # its spelling
        "Triton Error [HIP]: Code: 2, Message: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "cuFFT error: CUFFT_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "miopenStatusAllocFailed",
        nccl("Failed to CUDA calloc async 608 bytes"),
        nccl("Failed to CUDA calloc 8388608 bytes"),
        nccl("Failed to CUDA malloc 6291456 bytes"),
        nccl("Failed to CUDA host alloc 4923392 bytes"),
        nccl("Cuda failure 2 'out of memory'"),
        nccl("Cuda failure 'out of memory'"),  # older versions
        "backend='inductor' raised:\nOutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ],
)
def test_allocators_of_gpus_and_their_libraries(message: str) -> None:
    assert classify_error(RuntimeError(message)) == RunStatus.OUT_OF_MEMORY


@pytest.mark.parametrize(
    "message",
    [
        "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes may help.",
        "Triton Error [CUDA]: an illegal memory access was encountered",
        "Triton Error [CUDA]: device kernel image is invalid",
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: too many resources requested for launch",
        "CUDA driver error: invalid argument",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        nccl("Cuda failure 1 'invalid argument'"),
        nccl("Cuda failure 700 'an illegal memory access was encountered'"),
    ],
)
def test_other_failures_of_gpus_are_no_lack_of_memory(message: str) -> None:
    assert classify_error(RuntimeError(message)) == RunStatus.FAILED


def test_the_line_that_says_it_is_found_after_what_was_being_done() -> None:
    failure = "Failed to CUDA calloc async 608 bytes"  # NCCL's own words
    assert find_allocation_line(nccl(failure)) == failure
    assert find_allocation_line("one\ntwo") == "one"
    assert find_allocation_line("") == ""


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnavailableError("needs a GPU"), RunStatus.SKIPPED),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), RunStatus.OUT_OF_MEMORY),
        (MemoryError(), RunStatus.OUT_OF_MEMORY),
        (RuntimeError("std::bad_alloc"), RunStatus.OUT_OF_MEMORY),
        (OSError(12, "Cannot allocate memory"), RunStatus.OUT_OF_MEMORY),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), RunStatus.FAILED),
        (ValueError("not enough memory of the past"), RunStatus.FAILED),
        (KeyboardInterrupt(), RunStatus.INTERRUPTED),
    ],
)
def test_status(error, status):
    assert classify_error(error) == status


def test_torchs_own_allocation_failure_is_out_of_memory():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**62, dtype=torch.uint8)
    assert classify_error(caught.value) == RunStatus.OUT_OF_MEMORY
