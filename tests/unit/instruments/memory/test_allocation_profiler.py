"""torch's profiler as a recorder: every allocation, with what was around it."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.profiler import record_function

from perfkit.instruments.memory.allocation_profiler import AllocationProfiler, _format_line, _shorten_file
from perfkit.instruments.memory.profiler_events import ProfiledAllocation, RecordedEvents


def recording(body: Callable[[], object], *, ops: bool) -> RecordedEvents:
    with AllocationProfiler(ops=ops) as profiler:
        body()
    return profiler.recorded


def events_of(found: RecordedEvents, size: int) -> list[ProfiledAllocation]:
    """The allocations of a size, which a test makes unlike all others."""
    return [event for event in found.allocations if event.size == size]


def train(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    with record_function("perfkit::forward"):
        loss = model(x).square().mean()
    with record_function("perfkit::backward"):
        loss.backward()
    with record_function("perfkit::optimizer"):
        optimizer.step()
        optimizer.zero_grad()


def test_ops_or_not_the_same_allocations_are_recorded() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(33, 17), nn.GELU(), nn.Linear(17, 5))
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(7, 33)
    for _ in range(2):
        train(model, optimizer, x)
    light = recording(lambda: train(model, optimizer, x), ops=False)
    detailed = recording(lambda: train(model, optimizer, x), ops=True)
    sizes = [event.size for event in light.allocations]
    assert len(sizes) > 20
    assert sizes == [event.size for event in detailed.allocations]
    marks = [each.name for each in light.ranges if each.name.startswith("perfkit::")]
    assert marks == ["perfkit::forward", "perfkit::backward", "perfkit::optimizer"]
    assert [each.name for each in light.ranges] == [each.name for each in detailed.ranges]
    assert (light.uses, light.forwards) == ([], {})
    assert all(event.op == event.line == "" for event in light.allocations)
    assert detailed.uses
    assert detailed.forwards


def test_every_list_is_in_the_order_of_time() -> None:
    model = nn.Linear(3, 3)
    found = recording(lambda: model(torch.randn(2, 3)).sum().backward(), ops=True)
    for times in (
        [event.time_ns for event in found.allocations],
        [each.start_ns for each in found.ranges],
        [each.time_ns for each in found.uses],
    ):
        assert times == sorted(times)


@pytest.mark.parametrize("ops", [False, True])
def test_an_allocation_and_its_free(ops: bool) -> None:
    def body() -> None:
        block = torch.empty(1237)
        del block

    found = recording(body, ops=ops)
    (made,) = events_of(found, 1237 * 4)
    (freed,) = events_of(found, -1237 * 4)
    assert made.address == freed.address != 0
    assert (made.device.type, made.thread) == ("cpu", freed.thread)
    assert made.time_ns <= freed.time_ns


def test_a_block_is_of_the_op_around_the_one_that_only_obtains_memory() -> None:
    a, b = torch.randn(11, 13), torch.randn(13, 17)
    found = recording(lambda: (a @ b, torch.zeros(1237)), ops=True)
    (product,) = events_of(found, 11 * 17 * 4)
    assert product.op in ("aten::mm", "aten::matmul")
    assert set(product.inputs) >= {a.data_ptr(), b.data_ptr()}
    assert product.line.startswith("memory/test_allocation_profiler.py:")
    assert product.line.endswith(" <lambda>")


def test_a_gradient_is_of_its_node_which_names_its_forward_op() -> None:
    weight = torch.randn(13, 17, requires_grad=True)
    x = torch.randn(11, 13)
    found = recording(lambda: (x @ weight).sum().backward(), ops=True)
    (gradient,) = events_of(found, 13 * 17 * 4)
    assert gradient.node == "MmBackward0"
    call = found.forwards[gradient.sequence]
    assert call.line.startswith("memory/test_allocation_profiler.py:")
    assert call.time_ns < gradient.time_ns


def test_an_op_that_creates_no_node_is_not_the_one_whose_gradient_is_computed() -> None:
    weight, x = torch.randn(13, 17, requires_grad=True), torch.randn(11, 13)

    def step() -> None:
        x.sum().item()  # records the number that the product is going to have
        (x @ weight).sum().backward()

    found = recording(step, ops=True)
    (gradient,) = events_of(found, 13 * 17 * 4)
    assert found.forwards[gradient.sequence].line.split()[0].endswith(f":{step.__code__.co_firstlineno + 2}")


def test_hooks_of_perfkit_are_not_where_memory_was_asked_for() -> None:
    assert (
        _shorten_file("perfkit/attach/loop/loop_hooks.py")
        == _shorten_file("/x/site-packages/perfkit/attach/loop/loop_hooks.py")
        == ""
    )
    assert _shorten_file("work/attach/hooks.py") == "attach/hooks.py"
    assert _shorten_file("perfkit/workloads/gpt.py") == "workloads/gpt.py"


def test_tensors_that_ops_are_given_also_in_lists() -> None:
    parts = [torch.randn(3, 5), torch.randn(4, 5).to(torch.float64).float()]
    found = recording(lambda: torch.cat(parts), ops=True)
    shapes = {use.address: use.shape for use in found.uses}
    assert [shapes[part.data_ptr()] for part in parts] == [(3, 5), (4, 5)]
    assert {use.tensor for use in found.uses} >= {part._cdata for part in parts}


def test_ranges_on_other_threads_and_within_ranges() -> None:
    def body() -> None:
        with record_function("outer"), record_function("inner"):
            torch.empty(1237)

    found = recording(body, ops=False)
    outer, inner = found.ranges
    assert (outer.name, inner.name, outer.thread) == ("outer", "inner", inner.thread)
    (made,) = events_of(found, 1237 * 4)
    assert outer.start_ns <= inner.start_ns <= made.time_ns <= inner.end_ns <= outer.end_ns


@pytest.mark.parametrize("ops", [False, True])
def test_an_exception_ends_the_recording_and_keeps_it(ops: bool) -> None:
    profiler = AllocationProfiler(ops=ops)

    def body() -> None:
        with record_function("phase"):
            torch.empty(1237)
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"), profiler:
        body()
    assert len(events_of(profiler.recorded, 1237 * 4)) == 1
    assert [each.name for each in profiler.recorded.ranges] == ["phase"]
    assert not torch._C._autograd._profiler_enabled()
    assert recording(lambda: torch.empty(3), ops=ops).allocations, "another recording can follow"


def test_the_op_that_began_last_is_the_one_that_an_exception_came_from() -> None:
    a = torch.randn(3, 5)

    def body() -> None:
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            torch.relu(a) @ a

    last = recording(body, ops=True).last
    assert last.op in ("aten::mm", "aten::matmul")
    assert last.line.endswith(" body")
    assert recording(body, ops=False).last is None


def test_an_op_that_only_obtains_memory_counts_where_there_is_no_other() -> None:
    (event,) = events_of(recording(lambda: torch.empty(1237), ops=True), 1237 * 4)
    assert event.op == "aten::empty"


def test_nothing_to_record() -> None:
    assert recording(lambda: None, ops=True).allocations == []
    assert recording(lambda: None, ops=False) == RecordedEvents([], [], [], {})


class _OverwrittenFrame:
    """A frame of code that was freed: the bytes of its file's name are others'."""

    line_number, function_name = 3, "forward"

    @property
    def file_name(self) -> str:
        return b"\xdb\x00".decode()


def test_a_frame_whose_name_was_overwritten_has_none() -> None:
    assert _format_line(_OverwrittenFrame()) == ""
