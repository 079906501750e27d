"""Which GPUs torch will see: by a fake driver where that decides, else by torch's own word in a process that ends."""

import json
import subprocess

import pynvml
import pytest
import torch

from perfkit.core.errors import PerfkitError
from perfkit.devices.machine import visible_gpus
from perfkit.devices.machine.visible_gpus import explain_missing_gpus, list_visible_gpus
from tests.fixtures.fake_nvml import FakeGpu, FakeNvml

H100, H200, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA A100-SXM4-80GB"
TORCHS_WORD = ("torch's word",)


@pytest.fixture
def machine(monkeypatch):
    """A machine with a CUDA build of torch and a driver, where whoever uses CUDA in this process fails."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(visible_gpus, "_has_cuda_driver", lambda: True)
    monkeypatch.setattr(visible_gpus, "_list_by_torch", lambda: TORCHS_WORD)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: pytest.fail("CUDA was initialised"))
    driver = FakeNvml([FakeGpu("GPU-a0"), FakeGpu("GPU-b1"), FakeGpu("GPU-b2")])
    driver.install(monkeypatch)
    return driver


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (None, 3),
        ("", 0),
        ("2", 1),
        ("2,0", 2),
        ("0,7,1", 1),  # what comes after an invalid one is not visible
        ("1,1", 0),
        ("-1", 0),
        ("GPU-b2,GPU-a0", 2),
        ("GPU-b", 0),  # two begin so
        ("MIG-1111", 1),  # torch's word
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(machine, monkeypatch, chosen, count):
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert len(list_visible_gpus()) == count
    assert machine.open == 0


@pytest.mark.parametrize(
    ("chosen", "order", "names"),
    [
        (None, None, TORCHS_WORD),  # CUDA puts the fastest first
        ("0", None, TORCHS_WORD),
        (None, "PCI_BUS_ID", (A100, H200, H100)),
        ("1", "PCI_BUS_ID", (H200,)),
        ("GPU-b2,GPU-a0", None, (H100, A100)),
    ],
)
def test_different_gpus_are_told_apart_only_where_their_order_is_known(machine, monkeypatch, chosen, order, names):
    machine.gpus = [FakeGpu("GPU-a0", A100), FakeGpu("GPU-b1", H200), FakeGpu("GPU-b2", H100)]
    for name, value in (("CUDA_VISIBLE_DEVICES", chosen), ("CUDA_DEVICE_ORDER", order)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert list_visible_gpus() == names


def test_torch_is_asked_where_a_gpu_is_partitioned(machine):
    machine.gpus[1].instances = ("MIG-1111",)
    assert list_visible_gpus() == TORCHS_WORD


def test_of_gpus_in_mig_mode_every_instance_is_one_rank_s(machine):
    for index, gpu in enumerate(machine.gpus):
        gpu.name, gpu.instances = f"{A100} MIG 3g.40gb", (f"MIG-{index}0", f"MIG-{index}1")
    assert list_visible_gpus() == (f"{A100} MIG 3g.40gb",) * 6


def test_torch_is_asked_where_a_gpu_may_not_be(machine):
    machine.gpus[1].forbidden = True
    assert list_visible_gpus() == TORCHS_WORD


def test_torch_is_asked_where_the_driver_is_older_than_its_cuda(machine):
    machine.cuda = 12080
    assert list_visible_gpus() == TORCHS_WORD


def test_torch_is_asked_where_there_is_no_nvml(machine, monkeypatch):
    def fail():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert list_visible_gpus() == TORCHS_WORD


def test_torch_is_asked_on_rocm(machine, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert list_visible_gpus() == TORCHS_WORD


@pytest.mark.parametrize(("available", "names"), [(True, ["Intel GPU 0", "Intel GPU 1"]), (False, [])])
def test_torchs_word_about_xpus(machine, monkeypatch, capsys, available, names):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "xpu", "20250301")
    monkeypatch.setattr(torch.xpu, "is_available", lambda: available)
    monkeypatch.setattr(torch.xpu, "device_count", lambda: 2)
    monkeypatch.setattr(torch.xpu, "get_device_name", lambda index: f"Intel GPU {index}")
    visible_gpus.main()
    assert json.loads(capsys.readouterr().out) == names


def test_without_a_driver_or_a_build_for_it_there_are_none(machine, monkeypatch):
    monkeypatch.setattr(visible_gpus, "_has_cuda_driver", lambda: False)
    assert list_visible_gpus() == ()
    monkeypatch.setattr(torch.version, "cuda", None)
    assert list_visible_gpus() == ()


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_torchs_word_where_there_is_no_gpu():
    assert visible_gpus._list_by_torch() == ()


def test_a_torch_that_cannot_say(monkeypatch):
    broken = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback\nImportError: libcudart.so.13")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: broken)
    with pytest.raises(PerfkitError, match=r"exit code 1\): ImportError: libcudart.so.13; use --device cpu"):
        visible_gpus._list_by_torch()


@pytest.mark.parametrize(
    ("arguments", "least", "reason"),
    [
        ((2, 2), False, ""),
        ((4, 2), False, "needs 4 GPUs, 2 visible"),
        ((2, 1), True, "needs at least 2 GPUs, 1 visible"),
    ],
)
def test_why_there_are_too_few(arguments, least, reason):
    assert explain_missing_gpus(*arguments, least=least) == reason
