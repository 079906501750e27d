"""What the process and a fake device hold; what is not known is None."""

import os
import time
from pathlib import Path
from threading import Event

import psutil
import pytest
import torch

from perfkit.attach.live.resources import (
    ProcessResources,
    ResourceReader,
    SensorThread,
    open_reader,
    read_resident_bytes,
)
from perfkit.core.record.environment import DeviceSample


def test_the_resident_set_is_that_of_the_process() -> None:
    found = read_resident_bytes()
    assert found is not None
    assert found == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)


def test_pages_are_turned_into_bytes(tmp_path: Path) -> None:
    (tmp_path / "statm").write_text("900 7 3 1 0 2 0\n")
    assert read_resident_bytes(tmp_path / "statm") == 7 * os.sysconf("SC_PAGE_SIZE")
    assert read_resident_bytes(tmp_path / "none") is None


def test_on_a_cpu_the_rest_is_not_known(tmp_path: Path) -> None:
    assert ResourceReader(torch.device("cpu"), statm=tmp_path / "none").read() == ProcessResources()
    assert open_reader(torch.device("cpu"), 1.0).read().rss_bytes is not None


def test_peaks_of_the_allocator_and_the_last_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statistics = {"allocated_bytes": {"all": {"peak": 70}}, "reserved_bytes": {"all": {"peak": 100}}}
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: statistics)
    read = Event()

    def sample(time_s: float) -> DeviceSample:
        read.set()
        return DeviceSample(time_s=time_s, utilization=0.5, power_w=300.0)

    sensors = SensorThread(sample, period_s=60.0)
    reader = ResourceReader(torch.device("cuda", 0), sensors, tmp_path / "none")
    assert read.wait(10)
    until = time.monotonic() + 10
    while sensors.latest.power_w is None and time.monotonic() < until:
        time.sleep(0.001)
    assert reader.read() == ProcessResources(allocated_bytes=70, reserved_bytes=100, utilization=0.5, power_w=300.0)
    reader.close()
    sensors._thread.join(10)
    assert not sensors._thread.is_alive()


def test_an_allocator_without_statistics_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: {})
    assert ResourceReader(torch.device("cuda", 0), statm=tmp_path / "none").read() == ProcessResources()


def test_sensors_that_fail_are_left_alone_and_their_last_reading_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    readings = [DeviceSample(time_s=0.0, power_w=300.0)]
    sensors = SensorThread(lambda time_s: readings.pop(), period_s=0.0)
    sensors._thread.join(10)
    assert not sensors._thread.is_alive()
    assert sensors.latest.power_w is None
    assert ["sensors" in line.getMessage() for line in caplog.records].count(True) == 1
