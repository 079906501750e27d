"""One mode does what several did: with another mode on top, these are modes of their own and find the same."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.inplace_gradients import add_gradients_in_place
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.op_watcher import cost_watched_ops, find_top_watcher
from perfkit.plan.rehearsal.step_ops import StepOp, StepOps


class Another(TorchDispatchMode):
    """A mode of a user."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def watch() -> Iterator[FakeMemory]:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()), add_gradients_in_place():
        yield memory


def train() -> None:
    x = torch.ones(31, 7, requires_grad=True)
    h = x * 3
    (h.sin() + h.cos() + h.exp().var(0)).sum().backward()


@pytest.mark.parametrize("on_top", [True, False])
def test_a_watcher_finds_the_ops_and_memory_that_modes_of_their_own_find(on_top: bool) -> None:
    def record() -> tuple[Any, Any]:
        with watch() as memory:
            ops = StepOps()
            with cost_watched_ops(ops):
                train()
            return ops.issued, [(event.op, event.size) for event in memory.recorded.allocations]

    def record_under_another() -> tuple[Any, Any]:
        with watch() as memory, Another():  # type: ignore[no-untyped-call]
            assert find_top_watcher() is None
            ops = StepOps()
            with cost_watched_ops(ops):
                train()
            return ops.issued, [(event.op, event.size) for event in memory.recorded.allocations]

    issued, allocated = record() if on_top else record_under_another()
    with watch() as memory, StepOps() as ops:
        train()
    assert issued == ops.issued != []
    assert allocated == [(event.op, event.size) for event in memory.recorded.allocations]
    assert any(isinstance(each, StepOp) and each.work.op == "aten::add_" for each in issued)


def test_no_op_is_costed_outside_of_the_context() -> None:
    with watch():
        ops = StepOps()
        with cost_watched_ops(ops):
            torch.ones(3).sin()
        torch.ones(3).cos()
    assert [each.work.op for each in ops.issued if isinstance(each, StepOp)] == ["aten::ones", "aten::sin"]


def test_the_device_of_a_fake_tensor_is_its_own() -> None:
    with watch(), FakeTensorMode():
        x = torch.empty(3, device="cpu")
        assert torch.ops.prim.device.default(x) == torch.device("cpu")
        assert x.device.type == "cpu"
