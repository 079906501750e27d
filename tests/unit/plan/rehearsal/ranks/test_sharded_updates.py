"""Updates of distributed tensors by their shards."""

from contextlib import ExitStack
from unittest.mock import patch

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor._dispatch import OpDispatcher
from torch.optim import Adam, AdamW

from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.ranks import sharded_updates
from perfkit.plan.rehearsal.ranks.fake_ranks import simulate_ranks


def update(kind: type[Adam], of_gradient: Placement) -> list[tuple[str, int]]:
    """The allocations of a second update of a parameter of 8 x 6 that is cut over 4 ranks."""
    memory = FakeMemory()
    with simulate_ranks(4), ExitStack() as stack:
        mesh = init_device_mesh("cpu", (4,))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(memory.record_allocations(OpScratchProbe()))
        part = DTensor.from_local(torch.empty(2, 6), mesh, [Shard(0)], run_check=False)
        parameter = torch.nn.Parameter(part)
        rows = 2 if isinstance(of_gradient, Shard) else 8
        parameter.grad = DTensor.from_local(torch.empty(rows, 6), mesh, [of_gradient], run_check=False)
        optimizer = kind([parameter])
        optimizer.step()
        memory.begin()
        optimizer.step()
        shapes = [tuple(value.shape) for value in optimizer.state[parameter].values()]
    assert shapes == [(), (8, 6), (8, 6)]
    return [(event.op, event.size) for event in memory.recorded.allocations if event.size > 8]


@pytest.mark.parametrize("kind", [Adam, AdamW])
@pytest.mark.parametrize("of_gradient", [Shard(0), Replicate()])
def test_an_update_of_shards_takes_what_torch_takes(kind: type[Adam], of_gradient: Placement) -> None:
    made = update(kind, of_gradient)
    with patch.object(sharded_updates, "_are_alike", lambda _: False):
        assert made == update(kind, of_gradient)
    assert {size for _, size in made} == {2 * 6 * 4}


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_a_rank_without_gradients_updates_nothing(kind: type[Adam]) -> None:
    with sharded_updates.update_shards():
        optimizer = kind([torch.nn.Parameter(torch.ones(3))])
        optimizer.step()
    assert not optimizer.state


def test_shards_are_updated_without_distributed_tensors() -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    # torch 2.9 has no quick path, nor a name for the slow one.
    with patch.object(OpDispatcher, "_propagate_op_sharding_dispatch_slow_path", fail, create=True):
        assert update(Adam, Shard(0))
