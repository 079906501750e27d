"""Resident sets from a made-up proc folder and from the real one, and the device's moments with a fake torch.cuda."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from perfkit.core.record.quantity import Unknown, get_value, make_measurement
from perfkit.instruments.sensors import process_memory
from perfkit.instruments.sensors.process_memory import measure_peak_rss, read_before_model, read_device_moment
from perfkit.instruments.sensors.sensors import NvmlMemory
from perfkit.techniques.base.state import World

MIB = 2**20
STATUS = """Name:\tpython
VmHWM:\t  {peak} kB
VmRSS:\t  {resident} kB
RssAnon:\t  1024 kB
RssFile:\t  512 kB
RssShmem:\t  256 kB
Threads:\t3
"""


def write_status(proc, *, peak, resident):
    (proc / "status").write_text(STATUS.format(peak=peak, resident=resident))


def test_the_peak_is_that_of_the_body(tmp_path):
    write_status(tmp_path, peak=2048, resident=2048)
    with measure_peak_rss(tmp_path) as found:
        assert (tmp_path / "clear_refs").read_text() == "5"
        write_status(tmp_path, peak=8192, resident=2048)
    assert get_value(found.peak) == 8 * MIB
    assert get_value(found.mapped) == 768 * 1024


def test_the_peak_is_known_after_an_error_too(tmp_path):
    write_status(tmp_path, peak=2048, resident=2048)
    with pytest.raises(MemoryError), measure_peak_rss(tmp_path) as found:
        raise MemoryError
    assert get_value(found.peak) == 2 * MIB


def test_a_peak_that_is_not_reset_is_unknown(tmp_path):
    write_status(tmp_path, peak=1_000_000, resident=2048)
    with measure_peak_rss(tmp_path) as found:
        pass
    assert isinstance(found.peak, Unknown)
    assert "peak" in found.peak.reason
    assert get_value(found.mapped) == 768 * 1024


def test_a_system_without_proc(tmp_path):
    with measure_peak_rss(tmp_path / "none") as found:
        pass
    assert isinstance(found.peak, Unknown)
    assert "peak" in found.peak.reason
    assert "cannot be reset" in found.peak.reason
    assert isinstance(found.mapped, Unknown)


@pytest.mark.skipif(not (process_memory.PROC / "clear_refs").exists(), reason="Linux alone has it")
def test_a_real_peak_counts_what_was_touched_in_the_body_alone():
    before = bytearray(200 * MIB)
    del before
    with measure_peak_rss() as small:
        pass
    with measure_peak_rss() as large:
        block = bytearray(b"\x01") * (100 * MIB)
        del block
    assert get_value(large.peak) - get_value(small.peak) == pytest.approx(100 * MIB, rel=0.2)


def test_on_a_cpu_there_is_no_moment_of_a_device():
    memory = read_before_model(torch.device("cpu"), None, World(rank=0, size=2, local_rank=0))
    assert (memory.at_context, memory.at_group) == (None, None)
    assert get_value(memory.before_model) > get_value(memory.mapped_before_model) > 0


@pytest.fixture
def cuda(monkeypatch):
    """A device whose allocator has reserved 2 MiB of the 500 MiB that the process holds; collectives add 900."""
    state = SimpleNamespace(process=500 * MIB, reserved=600 * MIB, synchronized=0)

    def synchronize(device):
        state.synchronized += 1

    def all_reduce(tensor):
        state.process += 900 * MIB

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 512)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 2 * MIB)
    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    monkeypatch.setattr(torch, "zeros", lambda count, device: None)
    state.sensors = SimpleNamespace(
        memory=lambda: NvmlMemory(state.process + MIB, state.reserved),
        process_used_bytes=lambda process: make_measurement(state.process, "bytes", "NVML"),
    )
    return state


def test_a_moment_of_the_device(cuda):
    moment = read_device_moment(torch.device("cuda", 0), cuda.sensors)
    assert (moment.allocated, moment.reserved) == (512, 2 * MIB)
    assert (get_value(moment.process), get_value(moment.device)) == (500 * MIB, 501 * MIB)
    assert get_value(moment.driver) == 600 * MIB
    assert cuda.synchronized == 1


def test_a_driver_that_does_not_tell_what_it_reserves(cuda):
    cuda.reserved = None
    moment = read_device_moment(torch.device("cuda", 0), cuda.sensors)
    assert get_value(moment.device) == 501 * MIB
    assert "does not separate" in moment.driver.reason


def test_without_nvml_only_the_allocator_is_known(cuda):
    moment = read_device_moment(torch.device("cuda", 0), None)
    assert moment.reserved == 2 * MIB
    assert isinstance(moment.process, Unknown)
    assert isinstance(moment.device, Unknown)


def test_the_group_is_told_from_the_context(cuda):
    memory = read_before_model(torch.device("cuda", 0), cuda.sensors, World(rank=0, size=2, local_rank=0))
    assert get_value(memory.at_context.process) == 500 * MIB
    assert get_value(memory.at_group.process) == 1400 * MIB


def test_a_lone_rank_makes_no_collective(cuda):
    memory = read_before_model(torch.device("cuda", 0), cuda.sensors, World(rank=0, size=1, local_rank=0))
    assert memory.at_group is None
    assert cuda.process == 500 * MIB
