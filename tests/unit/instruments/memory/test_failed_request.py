"""The failed request in messages as torch, NumPy and the operating system word them."""

import pytest
import torch

from perfkit.instruments.memory.failed_request import parse_failed_request

GIB = 2**30


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (  # torch 2.2 and later
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.56 GiB of which 6.80 GiB "
            "is free. Process 2612630 has 458.00 MiB memory in use. Including non-PyTorch memory, this process has "
            "36.61 GiB memory in use. Of the allocated memory 31.66 GiB is allocated by PyTorch, and 4.11 GiB is "
            "reserved by PyTorch but unallocated.",
            2 * GIB,
        ),
        (  # torch 2.1, its spelling
            "CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total capacty of 4.00 GiB of which 41.56 MiB "
            "is free.",
            32 * 2**20,
        ),
        (  # torch 1
            "CUDA out of memory. Tried to allocate 1024.00 KiB (GPU 0; 11.17 GiB total capacity; 10.90 GiB already "
            "allocated; 576.00 KiB free; 30.96 MiB cached)",
            2**20,
        ),
        ("CUDA out of memory. Tried to allocate 512 bytes. GPU 0 has a total capacity of 4.00 GiB", 512),
        ("CUDA out of memory. Tried to allocate 1.71 GiB. GPU 0 has", round(1.71 * GIB)),
        ("HIP out of memory. Tried to allocate 432.00 MiB. GPU 0 has a total capacity of 15.92 GiB", 432 * 2**20),
        ("CUDA out of memory. Tried to allocate more than 1EB memory.", None),
        (
            "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
            "allocate 132426121216 bytes. Error code 12 (Cannot allocate memory)",
            132426121216,
        ),
        (
            "[enforce fail at C:\\c10\\core\\impl\\alloc_cpu.cpp:81] data. DefaultCPUAllocator: not enough memory: you "
            "tried to allocate 1981808640 bytes.",
            1981808640,
        ),
        ("Unable to allocate 7.45 GiB for an array with shape (1000000000,) and data type int64", round(7.45 * GIB)),
        ("unable to mmap 4096 bytes from file </torch_1_2_3>: Cannot allocate memory (12)", 4096),
        ("Failed to CUDA calloc async 608 bytes", 608),  # NCCL
        ("Triton Error [CUDA]: out of memory", None),
        ("std::bad_alloc", None),
        ("could not create a primitive", None),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", None),
        ("CUDA error: out of memory", None),
    ],
)
def test_the_size_that_was_asked_for(message, size):
    request = parse_failed_request(RuntimeError(message))
    assert request.bytes == size
    assert request.message == message


def test_torchs_own_failure_with_its_line():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.float32)
    request = parse_failed_request(caught.value, phase="forward", step=3)
    assert request.bytes == 2**52
    assert "\n" not in request.message
    assert request.line.startswith("test_failed_request.py:")
    assert request.line.endswith(" test_torchs_own_failure_with_its_line")
    assert (request.phase, request.step) == ("forward", 3)


def test_a_frame_of_torch_is_not_the_line():
    with pytest.raises(RuntimeError) as caught:
        torch.nn.Linear(2**31, 2**31)
    assert caught.value.__traceback__ is not None
    assert parse_failed_request(caught.value).line.startswith("test_failed_request.py:")


def test_an_error_without_a_message():
    request = parse_failed_request(MemoryError())
    assert (request.bytes, request.message, request.line) == (None, "MemoryError", "")
