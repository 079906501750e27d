"""Gloo groups that are made later have one worker, as torch's own classes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.distributed.device_mesh import init_device_mesh

from perfkit.measure.rank.gloo import limit_gloo_workers

CPU = torch.device("cpu")


@pytest.fixture
def rendezvous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(c10d, "_new_process_group_helper", c10d._new_process_group_helper)
    yield f"file://{tmp_path}/rendezvous"
    dist.destroy_process_group()


def workers(group: dist.ProcessGroup) -> int:
    backend = group._get_backend(CPU)
    assert type(backend) is dist.ProcessGroupGloo
    return backend.options._threads


@pytest.mark.parametrize("interface", ["", "lo"])
def test_groups_have_one_worker(rendezvous: str, interface: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", interface)
    limit_gloo_workers()
    dist.init_process_group("gloo", init_method=rendezvous, rank=0, world_size=1)
    of_mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp")).get_group("tp")
    groups = [dist.group.WORLD, dist.new_group([0], use_local_synchronization=True), of_mesh]
    assert [workers(group) for group in groups] == [1, 1, 1]
    summed = torch.ones(3)
    dist.all_reduce(summed, group=groups[1])
    assert summed.tolist() == [1.0, 1.0, 1.0]


def test_torch_itself_starts_two(rendezvous: str) -> None:
    """Where it no longer does, or takes options for Gloo, `perfkit/measure/rank/gloo.py` has had its time."""
    dist.init_process_group("gloo", init_method=rendezvous, rank=0, world_size=1)
    assert workers(dist.group.WORLD) == 2
