"""Which exception means what; the messages of torch's allocators are real ones."""

import pytest
import torch

from perfkit.capture.failure import first_line, status_of
from perfkit.errors import UnavailableError
from perfkit.record import Status


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnavailableError("needs a GPU"), Status.SKIPPED),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), Status.OUT_OF_MEMORY),
        (MemoryError(), Status.OUT_OF_MEMORY),
        (RuntimeError("std::bad_alloc"), Status.OUT_OF_MEMORY),
        (OSError(12, "Cannot allocate memory"), Status.OUT_OF_MEMORY),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously"), Status.OUT_OF_MEMORY),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), Status.OUT_OF_MEMORY),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), Status.OUT_OF_MEMORY),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), Status.FAILED),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), Status.FAILED),
        (ValueError("not enough memory of the past"), Status.FAILED),
        (KeyboardInterrupt(), Status.INTERRUPTED),
    ],
)
def test_status(error, status):
    assert status_of(error) == status


def test_torchs_own_allocation_failure_is_out_of_memory():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**62, dtype=torch.uint8)
    assert status_of(caught.value) == Status.OUT_OF_MEMORY


def test_first_line():
    assert first_line(ValueError("one\ntwo")) == "ValueError: one"
    assert first_line(ValueError()) == "ValueError"
