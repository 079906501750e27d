"""Groups are noted when they exchange something, and only then."""

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import _functional_collectives as functional

from perfkit.plan.rehearsal.fake_ranks import simulate_ranks
from perfkit.plan.rehearsal.used_groups import UsedGroups


def test_groups_are_those_that_exchange_anything_while_it_is_entered() -> None:
    with simulate_ranks(4), FakeTensorMode(allow_non_fake_inputs=True):
        half, pair, idle = (dist.new_group(ranks) for ranks in ([0, 1], [0, 3], [0, 2]))
        part = torch.empty(10)
        with UsedGroups() as used:
            dist.all_reduce(part)
            dist.all_reduce(part, group=half)
        dist.broadcast(part, src=0, group=idle)
        with used:
            functional.all_reduce(part, "sum", pair)
        names = [group.group_name for group in (dist.group.WORLD, half, pair)]
    assert used.ranks == dict(zip(names, (4, 2, 2), strict=True))
