"""Bytes of collectives, by hand, on four ranks of which three are not there."""

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from perfkit.instruments.facts.exchanged_bytes import ExchangedBytes
from perfkit.plan.rehearsal.ranks.fake_ranks import simulate_ranks


def test_messages_add_up_by_kind() -> None:
    part, whole = torch.zeros(10), torch.zeros(40, dtype=torch.float64)
    with simulate_ranks(4), ExchangedBytes({}) as counted:
        dist.all_reduce(part)
        dist.all_reduce(part.bfloat16())
        dist.all_gather_into_tensor(torch.zeros(40), part)
        functional.all_gather_tensor(part, 0, dist.group.WORLD)
        dist.reduce_scatter_tensor(torch.zeros(10, dtype=torch.float64), whole)
        dist.broadcast(part, src=0)
        dist.barrier()
    assert counted.collect_facts() == {
        "collective_bytes:all-reduce": 40 + 20,
        "collective_bytes:all-gather": 160 + 160,
        "collective_bytes:reduce-scatter": 320,
        "collective_bytes:all-to-all": 0,
        "collective_bytes:broadcast": 40,
        "collective_bytes:barrier": 0,
        "collective_volume:all-reduce": 2 * 3 / 4 * 60,
        "collective_volume:all-gather": 3 / 4 * 320,
        "collective_volume:reduce-scatter": 3 / 4 * 320,
        "collective_volume:all-to-all": 0,
        "collective_volume:broadcast": 40,
        "collective_volume:barrier": 0,
        "collective_bytes:send": 0,
        "collective_bytes:receive": 0,
        "collective_volume:send": 0,
        "collective_volume:receive": 0,
    }


def test_what_distributed_tensors_exchange_counts() -> None:
    with simulate_ranks(4):
        mesh = init_device_mesh("cpu", (4,))
        sharded = distribute_tensor(torch.zeros(8, 4), mesh, [Shard(0)], src_data_rank=None)
        with ExchangedBytes({}) as counted:
            sharded.full_tensor()
    assert counted.collect_facts()["collective_bytes:all-gather"] == 4 * 8 * 4


def test_backward_passes_count() -> None:
    class Summed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            dist.all_reduce(gradient)
            return gradient

    x = torch.zeros(6, requires_grad=True)
    with simulate_ranks(4), ExchangedBytes({}) as counted:
        Summed.apply(x).sum().backward()
    assert counted.collect_facts()["collective_bytes:all-reduce"] == 24
