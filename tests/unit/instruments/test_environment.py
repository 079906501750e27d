"""What is recorded of torch's settings, which the program may have made by either set of switches."""

from types import SimpleNamespace

import pytest
import torch

from perfkit.instruments.environment import add_fp32_settings, nccl_version, read_environment
from tests.fixtures.suites import ENVIRONMENT

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.usefixtures("fp32_switches")
@pytest.mark.parametrize(("precision", "word"), [("ieee", "highest"), ("tf32", "high"), ("bf16", "medium")])
def test_the_new_switch(precision: str, word: str) -> None:
    torch.backends.fp32_precision = precision
    found = read_environment(CPU)
    assert (found.matmul_precision, found.conv_precision, found.rnn_precision) == (word, precision, precision)


@pytest.mark.usefixtures("fp32_switches")
@pytest.mark.parametrize("word", ["highest", "high", "medium"])
def test_the_old_switch(word: str) -> None:
    torch.set_float32_matmul_precision(word)
    assert read_environment(CPU).matmul_precision == word


def test_nothing_set() -> None:
    found = read_environment(CPU)
    assert (found.matmul_precision, found.conv_precision, found.rnn_precision) == ("highest", "ieee", "ieee")


def test_a_gpu_has_one_setting_for_each_kind_of_op(fp32_gpu: dict[str, str]) -> None:
    found = add_fp32_settings(ENVIRONMENT, GPU)
    assert (found.matmul_precision, found.conv_precision, found.rnn_precision) == ("highest", "tf32", "tf32")
    fp32_gpu |= {"matmul": "tf32", "conv": "none"}
    found = add_fp32_settings(ENVIRONMENT, GPU)
    assert (found.matmul_precision, found.conv_precision, found.rnn_precision) == ("high", "ieee", "tf32")


def test_an_xpu(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="Intel GPU", total_memory=48 * 2**30, driver_version="1.6.32567", uuid=b"1")
    monkeypatch.setattr(torch.xpu, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.xpu, "device_count", lambda: 2)
    found = read_environment(torch.device("xpu", 1))
    assert (found.device, found.device_name, found.device_count) == ("xpu", "Intel GPU", 2)
    assert (found.device_memory_bytes, found.driver, found.compute_capability) == (48 * 2**30, "1.6.32567", None)


@pytest.mark.parametrize(("available", "version"), [(True, "2.27.5"), (False, None)])
def test_the_version_of_nccl(monkeypatch: pytest.MonkeyPatch, available: bool, version: str | None) -> None:
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: available)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 27, 5))
    assert nccl_version() == version


def test_variables_of_nccl_are_in_the_environment_of_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert "NCCL_NVLS_ENABLE" not in read_environment(CPU).variables
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert read_environment(CPU).variables["NCCL_NVLS_ENABLE"] == "0"
