"""Storages of a GPU's host among fake tensors, and what is computed from them."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe


def test_what_the_host_computes_takes_no_memory_of_the_device() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        shard, scalar = torch.empty(10), torch.tensor(2.0)
        memory.move_to_host(shard.untyped_storage())
        state = torch.zeros_like(shard)
        scaled = state * scalar
        with memory.host.copy_to_device():
            copied = shard.clone()
        on_device = copied * scalar
    sizes = [event.size for event in memory.recorded.allocations]
    assert sizes == [40, 4, -40, 40, 40]
    assert all(tensor.untyped_storage()._cdata in memory.host for tensor in (shard, state, scaled))
    assert on_device.untyped_storage()._cdata not in memory.host


def test_a_storage_that_is_freed_is_on_the_host_no_more() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        shard = torch.empty(10)
        memory.move_to_host(shard.untyped_storage())
        address = shard.untyped_storage()._cdata
        del shard
        assert address not in memory.host
