"""What collectives of a CPU take beside their results, against gloo's own, and by hand; and which groups are in use."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import _functional_collectives as functional

from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.ranks.fake_ranks import UsedGroups, simulate_ranks

SHARD = 1024


def gather(ranks: int) -> None:
    dist.all_gather_into_tensor(torch.empty(ranks * SHARD), torch.empty(SHARD))


def reduce_scatter(ranks: int) -> None:
    dist.reduce_scatter_tensor(torch.empty(SHARD), torch.empty(ranks * SHARD))


def all_reduce(ranks: int) -> None:
    dist.all_reduce(torch.empty(SHARD))


@pytest.mark.parametrize(("collective", "copied"), [(gather, 4), (reduce_scatter, 4), (all_reduce, 0)])
def test_what_is_of_all_ranks_is_copied_once(collective, copied: int) -> None:  # type: ignore[no-untyped-def]
    memory = FakeMemory()
    with simulate_ranks(4), FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        collective(4)
    sizes = [event.size for event in memory.recorded.allocations if event.op.startswith("c10d::")]
    assert sizes == ([copied * SHARD * 4, -copied * SHARD * 4] if copied else [])


@pytest.mark.parametrize("collective", [gather, reduce_scatter, all_reduce])
def test_gloo_takes_as_much(collective, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """On the thread that asks; that of gloo, later, takes no more at a time."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        with AllocationProfiler(ops=False) as profiler:
            collective(1)
    finally:
        dist.destroy_process_group()
    events = profiler.recorded.allocations
    mine = [event for event in events if event.thread == events[0].thread]
    operands = 4 * SHARD * (1 if collective is all_reduce else 2)
    copied = 0 if collective is all_reduce else 4 * SHARD
    assert sum(event.size for event in mine if event.size > 0) == operands + copied


@pytest.mark.parametrize("size", [1, 3, 4, 10, 4096])
def test_a_rank_is_given_its_own_shard_of_a_parameter_and_none_of_the_others(size: int) -> None:
    from torch.distributed.fsdp._fully_shard import _fsdp_param

    real = _fsdp_param._chunk_with_empty
    weight = torch.arange(20.0).view(10, 2)
    with simulate_ranks(max(2, size)):
        ours = _fsdp_param._chunk_with_empty(weight, size, dim=0)
    assert len(ours) == 1
    assert torch.equal(ours[0], real(weight, size, dim=0)[0])


def test_groups_are_those_that_exchange_anything() -> None:
    used = UsedGroups()
    with simulate_ranks(4), FakeTensorMode(allow_non_fake_inputs=True):
        half, pair, idle = (dist.new_group(ranks) for ranks in ([0, 1], [0, 3], [0, 2]))
        part = torch.empty(10)
        with FakeMemory().record_allocations(OpScratchProbe(), used.record_call):
            dist.all_reduce(part)
            dist.all_reduce(part, group=half)
            functional.all_reduce(part, "sum", pair)
            part.add_(1)
        dist.broadcast(part, src=0, group=idle)
        names = [group.group_name for group in (dist.group.WORLD, half, pair)]
    assert used.ranks == dict(zip(names, (4, 2, 2), strict=True))
