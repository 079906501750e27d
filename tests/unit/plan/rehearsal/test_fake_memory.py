"""What fake tensors would take, counted by hand."""

import gc
import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe


def sizes(memory: FakeMemory) -> list[int]:
    return [event.size for event in memory.recorded.allocations]


def test_a_block_lives_from_the_op_that_made_it_to_its_last_reference() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        kept = torch.empty(10)
        view = kept[2:4]
        del kept
        other = torch.ones(3, dtype=torch.int64) + 1
        del view, other
    # The ones end with the expression, after the sum has been made; a view holds the whole block.
    assert sizes(memory) == [40, 24, 24, -24, -40, -24]
    assert [event.op for event in memory.recorded.allocations if event.size > 0] == [
        "aten::empty",
        "aten::ones",
        "aten::add",
    ]


def test_forgetting_what_was_recorded_keeps_what_is_alive() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        kept = torch.empty(10)
        memory.begin()
        assert sizes(memory) == []
        assert [block.size_bytes for block in memory.list_other_blocks(set())] == [40]
        del kept
    assert sizes(memory) == [-40]


def test_a_storage_that_is_resized_ends_and_begins_again() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        tensor = torch.empty(10)
        tensor.untyped_storage().resize_(0)
        tensor.untyped_storage().resize_(80)
        tensor.untyped_storage().resize_(80)
        del tensor
    assert sizes(memory) == [40, -40, 80, -80]


def test_a_view_of_what_was_freed_does_not_bring_it_back() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        tensor = torch.empty(10)
        tensor.detach()  # the second such call is answered by the cache of fake tensors
        tensor.untyped_storage().resize_(0)
        assert tensor.detach().untyped_storage().nbytes() == 0
    assert sizes(memory) == [40, -40]


def test_a_storage_that_a_tensor_was_set_to_ends_with_its_last_reference() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        tensor = torch.empty(10)
        view = torch.empty(0).set_(tensor.untyped_storage(), 0, (5,), (1,))
        del tensor
        assert sizes(memory) == [40]
        del view
    assert sizes(memory) == [40, -40]


def test_who_resized_a_storage_is_told_by_its_line() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        torch.empty(1).untyped_storage().resize_(80)
    assert [event.line.partition(":")[0] for event in memory.recorded.allocations if event.size == 80] == [
        "rehearsal/test_fake_memory.py"
    ]


def test_ranges_are_heard_with_their_nesting() -> None:
    memory = FakeMemory()
    ranges = [torch.profiler.record_function(name) for name in ("outer", "inner")]
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()), ranges[0], ranges[1]:
        torch.empty(1)
    inner, outer = memory.recorded.ranges
    assert (inner.name, outer.name) == ("inner", "outer")
    assert outer.start_ns < inner.start_ns < inner.end_ns < outer.end_ns


def test_a_loop_that_draws_again_what_is_out_of_range_ends_at_once() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        assert not torch.rand(3).gt(2).any()
        assert torch.rand(3).sum().item() == 1.0
        torch.nn.init.trunc_normal_(torch.empty(4))


def test_backward_is_told_by_its_nodes() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        weight = torch.empty(4, 4, requires_grad=True)
        loss = (torch.empty(2, 4) @ weight).sum()
        memory.begin()
        loss.backward()
    made = [event for event in memory.recorded.allocations if event.size == weight.nbytes]
    assert [event.node for event in made] == ["MmBackward0"]


def test_a_tensor_that_outlives_the_recording_does_not_keep_it() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        kept = torch.empty(10)
    released = weakref.ref(memory)
    del memory
    gc.collect()
    assert released() is None
    assert kept.numel() == 10
