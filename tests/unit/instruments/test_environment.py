"""What is recorded of torch's settings, which the program may have made by either set of switches."""

from types import SimpleNamespace

import pytest
import torch

from perfkit.instruments.environment import (
    MKL,
    NOT_RECORDED,
    ONEDNN,
    add_fp32_settings,
    format_cudnn_version,
    nccl_version,
    read_build_version,
    read_environment,
    recorded_variables,
)
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


BUILD = """PyTorch built with:
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64 architecture applications
  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80afa71049cd69a3df32adcccb623b12cd7baa22)
"""


def test_libraries_of_the_build() -> None:
    assert (read_build_version(ONEDNN, BUILD), read_build_version(MKL, BUILD)) == ("3.12.0", "2024.2")
    assert read_build_version(MKL, "PyTorch built with:\n  - GCC 13.3\n") is None


@pytest.mark.parametrize(("number", "version"), [(92400, "9.24.0"), (91002, "9.10.2"), (8902, "8.9.2"), (None, None)])
def test_the_version_of_cudnn(number: int | None, version: str | None) -> None:
    assert format_cudnn_version(number) == version


def test_variables_of_nccl_are_in_the_environment_of_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert "NCCL_NVLS_ENABLE" not in read_environment(CPU).variables
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert read_environment(CPU).variables["NCCL_NVLS_ENABLE"] == "0"


SET = {
    "OMP_NUM_THREADS": "4",
    "HOME": "/root",
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "NVL",
    "TORCH_NCCL_BLOCKING_WAIT": "1",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",  # perfkit's own
    "RCCL_MSCCL_ENABLE": "0",
}
OF_MESSAGES = {"NCCL_P2P_LEVEL": "NVL", "TORCH_NCCL_BLOCKING_WAIT": "1", "RCCL_MSCCL_ENABLE": "0"}


def test_of_one_rank_on_a_cpu_messages_do_not_matter() -> None:
    assert recorded_variables(SET, on_gpu=False) == {"OMP_NUM_THREADS": "4", "NCCL_ALGO": "Ring"}


@pytest.mark.parametrize(("ranks", "on_gpu"), [("1", True), ("2", False), ("8", True)])
def test_all_variables_of_messages_are_kept(ranks: str, on_gpu: bool) -> None:
    found = recorded_variables({**SET, "WORLD_SIZE": ranks}, on_gpu=on_gpu)
    assert found == {"OMP_NUM_THREADS": "4", "NCCL_ALGO": "Ring"} | OF_MESSAGES


def test_of_ranks_that_share_a_gpu_that_is_said_alone() -> None:
    shared = {"PERFKIT_SHARED_GPU": "1", "NCCL_HOSTID": "perfkit-0", "NCCL_SOCKET_IFNAME": "lo", "NCCL_ALGO": "Tree"}
    assert recorded_variables(shared, on_gpu=True) == {"PERFKIT_SHARED_GPU": "1", "NCCL_ALGO": "Tree"}


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("NCCL_TOPO_FILE", "/var/run/nvidia-topologyd/virtualTopology-8xH100-SXM5-80GB.xml", True),
        ("NCCL_SOCKET_IFNAME", "^docker0,lo", True),
        ("NCCL_IB_PKEY", "0x8001", True),
        ("NCCL_COMM_ID", "10.0.0.1:29500", True),
        ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1", True),
        ("NCCL_NET_PLUGIN_TOKEN", "abc", False),
        ("NCCL_PROXY", "http://user:word@proxy:3128", False),
        ("NCCL_X", "hf_aBcDeFgHiJkLmNoP", False),
        ("NCCL_X", "Zm9vYmFyMTIzNDU2Nzg5MEFCQ0RFRkdISUpLTE1O", False),
    ],
)
def test_secrets_are_not_recorded(name: str, value: str, kept: bool) -> None:
    assert recorded_variables({name: value}, on_gpu=True) == {name: value if kept else NOT_RECORDED}
