"""The peaks that are known of a device and a process."""

from typing import Any

import pytest
import torch

from perfkit.core.record.quantity import Measurement, Unknown, get_value
from perfkit.instruments.sensors.memory_peaks import read_memory_peaks
from perfkit.instruments.sensors.sensors import NvmlMemory


class Sensors:
    def __init__(self, used: int | None) -> None:
        self._used = used

    def memory(self) -> NvmlMemory | None:
        return None if self._used is None else NvmlMemory(self._used, 17)


def test_a_cpu_has_no_allocator_that_counts() -> None:
    peaks = read_memory_peaks(torch.device("cpu"), None, "since then")
    assert all(isinstance(each, Unknown) and each.reason for each in (peaks.allocated, peaks.reserved))
    assert isinstance(peaks.driver_used, Unknown)
    rss = get_value(peaks.rss)
    assert rss is not None
    assert rss > 1e6  # an interpreter with torch, in bytes


def segment(
    total: int, allocated: int, *, device: int = 0, pool: tuple[int, int] = (0, 0), stream: int = 0
) -> dict[str, object]:
    sizes = {"total_size": total, "allocated_size": allocated}
    return {"device": device, "segment_pool_id": pool, "stream": stream, **sizes}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 200)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [segment(50, 10)])
    return torch.device("cuda", 0)


def test_a_gpus_peaks_say_since_when_they_count(gpu: torch.device) -> None:
    sensors: Any = Sensors(300)
    peaks = read_memory_peaks(gpu, sensors, "over timed steps")
    assert [get_value(each) for each in (peaks.allocated, peaks.reserved, peaks.driver_used)] == [100, 200, 300]
    assert isinstance(peaks.allocated, Measurement)
    assert peaks.allocated.source.endswith("over timed steps")


def test_an_xpus_peaks_are_those_of_its_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.xpu, "max_memory_allocated", lambda device: 100)
    monkeypatch.setattr(torch.xpu, "max_memory_reserved", lambda device: 200)
    peaks = read_memory_peaks(torch.device("xpu", 0), None, "over timed steps")
    assert [get_value(each) for each in (peaks.allocated, peaks.reserved, peaks.driver_used)] == [100, 200, None]


def test_what_cuda_graphs_have_taken_is_held_whole(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay uses its pool, and the allocator counts none of it."""
    segments = [
        segment(50, 10),
        segment(70, 0, pool=(0, 1), stream=9),  # of a handle that torch.compile asked for
        segment(20, 5, pool=(3, 0), stream=9),
        segment(40, 0, device=1, pool=(0, 1), stream=9),
    ]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    peaks = read_memory_peaks(gpu, None, "over timed steps")
    assert get_value(peaks.allocated) == 100 + 70 + 15
    assert isinstance(peaks.allocated, Measurement)
    assert "private pools" in peaks.allocated.source


def test_what_a_pool_of_the_program_keeps_free_is_not_held(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `torch.cuda.MemPool`: the default stream, which no graph captures, allocates in it."""
    segments = [segment(70, 0, pool=(0, 1), stream=9), segment(20, 5, pool=(0, 1), stream=0)]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    assert get_value(read_memory_peaks(gpu, None, "over timed steps").allocated) == 100


@pytest.mark.parametrize("sensors", [None, Sensors(None)])
def test_what_the_driver_does_not_tell_is_unknown(gpu: torch.device, sensors: Any) -> None:
    assert isinstance(read_memory_peaks(gpu, sensors, "over timed steps").driver_used, Unknown)


def test_no_bytes_are_a_number(gpu: torch.device) -> None:
    sensors: Any = Sensors(0)
    assert get_value(read_memory_peaks(gpu, sensors, "over timed steps").driver_used) == 0
