"""Handles by the UUIDs that CUDA tells, of GPUs and of MIG instances, with a fake driver."""

import pynvml
import pytest

from perfkit.devices.machine import nvml
from tests.fixtures.fake_nvml import FakeGpu, FakeNvml

PLAIN = FakeGpu("GPU-aaaa")
SPLIT = FakeGpu("GPU-bbbb", instances=("MIG-1111", "MIG-2222"))


@pytest.fixture
def driver(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    FakeNvml([PLAIN, SPLIT, FakeGpu("GPU-cccc", "NVIDIA GeForce RTX 4090")]).install(monkeypatch)


@pytest.mark.parametrize(
    ("uuid", "handle"),
    [
        ("aaaa", "GPU-aaaa"),
        ("cccc", "GPU-cccc"),  # has no MIG mode
        ("GPU-aaaa", "GPU-aaaa"),
        ("MIG-2222", "MIG-2222"),
        ("2222", "MIG-2222"),  # CUDA tells the instance's own UUID, and torch prints no prefix
    ],
)
def test_the_device_that_has_the_uuid(driver, uuid, handle):
    assert nvml.find_handle(uuid) == handle


def test_a_gpu_in_mig_mode_is_not_the_instance_on_it(driver):
    with pytest.raises(pynvml.NVMLError):
        nvml.find_handle("bbbb")


def test_the_instance_on_it_that_is_visible_is(driver, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-2222")
    assert nvml.find_handle("bbbb") == "MIG-2222"


def test_a_uuid_that_nothing_has(driver):
    with pytest.raises(pynvml.NVMLError):
        nvml.find_handle("dddd")


def test_all_gpus_and_whether_they_are_partitioned(driver):
    with nvml.open_nvml():
        assert [(gpu.uuid, gpu.partitioned) for gpu in nvml.list_gpus()] == [
            ("GPU-aaaa", False),
            ("GPU-bbbb", True),
            ("GPU-cccc", False),
        ]


def test_text_of_older_bindings():
    assert nvml.decode_text(b"NVIDIA A100") == nvml.decode_text("NVIDIA A100") == "NVIDIA A100"


def test_the_memory_of_the_gpus_of_a_name(monkeypatch):
    card, small, large = ("NVIDIA GeForce RTX 4060 Ti", 8 * 2**30, 16 * 2**30)
    FakeNvml([PLAIN, FakeGpu("GPU-a", card, memory_bytes=small)]).install(monkeypatch)
    assert (nvml.read_gpu_memory(card), nvml.read_gpu_memory(PLAIN.name)) == (small, 80 * 2**30)
    assert nvml.read_gpu_memory("NVIDIA A2") is None
    FakeNvml([FakeGpu("GPU-a", card, memory_bytes=small), FakeGpu("GPU-b", card, memory_bytes=large)]).install(
        monkeypatch
    )
    assert nvml.read_gpu_memory(card) is None
