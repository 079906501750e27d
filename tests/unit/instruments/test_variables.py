"""Which variables a record keeps."""

import pytest

from perfkit.instruments.variables import NOT_RECORDED, recorded_variables

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
