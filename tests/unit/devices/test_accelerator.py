"""The table of kinds of devices, and its questions, for devices of this process and for words of records."""

import runpy
import sys
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity

from perfkit.devices import accelerator
from perfkit.devices.accelerator import (
    ACCELERATORS,
    CPU,
    CUDA,
    MPS,
    NPU,
    ROCM,
    XPU,
    Accelerator,
    find_accelerator,
    find_built_accelerator,
    find_called_accelerator,
    get_accelerator,
    has_own_memory,
    is_cpu,
    is_cuda,
    is_nvidia,
)


@pytest.mark.parametrize(
    ("word", "row"),
    [
        ("cuda", CUDA), ("cuda:1", CUDA), ("rocm", ROCM), ("hip", ROCM), ("xpu", XPU), ("xpu:0", XPU), ("mps:0", MPS),
        ("cpu", CPU), ("cpu:0", CPU),
    ],
)  # fmt: skip
def test_a_word_of_a_record_or_a_trace(word: str, row: Accelerator) -> None:
    assert get_accelerator(word) is row
    assert is_cpu(word) == (row is CPU)
    assert is_cuda(word) == (row in (CUDA, ROCM))
    assert has_own_memory(word) == (row in (CUDA, ROCM, XPU))


@pytest.mark.parametrize("word", ["", "auto", "mtia", "privateuseone:0"])
def test_a_device_that_is_not_in_the_table_has_nothing(word: str) -> None:
    row = get_accelerator(word)
    assert (row.kind, row.type) == (word.partition(":")[0],) * 2
    assert not any(value is True for value in vars(row).values())
    assert not is_cpu(word)


@pytest.mark.parametrize(("hip", "row"), [(None, CUDA), ("6.4", ROCM)])
def test_torch_tells_nvidia_from_amd(monkeypatch: pytest.MonkeyPatch, hip: str | None, row: Accelerator) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    device = torch.device("cuda", 1)
    assert get_accelerator(device) is row
    assert is_cuda(device)
    assert is_nvidia(device) == (row is CUDA)
    assert not is_nvidia(torch.device("xpu"))


_OF_EVENTS = ("Event", "Stream", "stream", "current_stream", "synchronize")
_OF_DEVICES = (
    "is_available", "is_initialized", "device_count", "current_device", "set_device", "get_device_name",
    "get_device_properties", "empty_cache",
)  # fmt: skip
_OF_STATISTICS = (
    "memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "reset_peak_memory_stats",
    "memory_stats_as_nested_dict",
)  # fmt: skip
_OF_HISTORY = ("_record_memory_history", "_snapshot")


# `torch.npu` comes with torch_npu.
@pytest.mark.parametrize("row", [row for row in ACCELERATORS if row is not NPU], ids=lambda row: row.kind)
def test_torch_has_what_a_row_says(row: Accelerator) -> None:
    runtime: Any = row.runtime
    assert runtime is getattr(torch, row.type)
    needed = (
        *(_OF_DEVICES if row.has_own_memory else ()),
        *(_OF_EVENTS if row.has_events else ()),
        *(_OF_STATISTICS if row.has_memory_statistics else ()),
        *(("get_rng_state", "set_rng_state") if row.has_generator else ()),
        *(("memory_snapshot", "is_current_stream_capturing") if row.has_graphs else ()),
    )
    assert [name for name in needed if not hasattr(runtime, name)] == []
    assert not row.has_allocator_history or all(hasattr(runtime.memory, name) for name in _OF_HISTORY)
    assert not row.activity or hasattr(ProfilerActivity, row.activity)
    assert row.backend in torch.distributed.Backend.backend_list


@pytest.mark.parametrize(
    ("versions", "row"),
    [({}, None), ({"cuda": "13.0"}, CUDA), ({"hip": "6.4"}, ROCM), ({"xpu": "20250301"}, XPU)],
)
def test_what_torch_is_built_for(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], row: Accelerator | None
) -> None:
    for name in ("cuda", "hip", "xpu"):
        monkeypatch.setattr(torch.version, name, versions.get(name))
    assert find_built_accelerator() is row


@pytest.mark.parametrize(
    ("product", "row"),
    [
        ("AMD Instinct MI300X", ROCM), ("Radeon RX 7900", ROCM), ("Intel(R) Data Center GPU Max 1550", XPU),
        ("NVIDIA H200", None), ("", None),
    ],
)  # fmt: skip
def test_a_products_name_tells_its_kind(product: str, row: Accelerator | None) -> None:
    assert find_accelerator(product) is row


@pytest.mark.parametrize(
    ("calls", "row"),
    [
        (["cudaLaunchKernel", "cuLaunchKernelEx"], CUDA), (["other", "hipLaunchKernel"], ROCM),
        (["zeCommandListAppendLaunchKernel"], XPU), (["urEnqueueKernelLaunch"], XPU), (["cuddle", "zero"], None),
        ([], None),
    ],
)  # fmt: skip
def test_calls_tell_the_kind(calls: list[str], row: Accelerator | None) -> None:
    assert find_called_accelerator(iter(calls)) is row


def test_words_need_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it raises
    loaded = runpy.run_path(accelerator.__file__)
    assert loaded["get_accelerator"]("rocm").type == "cuda"
    assert loaded["is_cpu"]("cpu")
