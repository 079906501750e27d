"""Updates that torch's compiler fuses take what is between their kernels; others take every result."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.plan.rehearsal.compiled_updates import fuse_updates
from perfkit.plan.rehearsal.fake_memory import SCRATCH, FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.step_ops import StepOp, StepOps

NUMBERS = 48


class OptimState8bit:
    pass


class OptimState4bit:
    pass


def update(parameter: torch.Tensor, gradient: torch.Tensor, _state: object) -> None:
    parameter.add_(gradient * 2)


def changes_of(
    function: Callable[..., Any], state: object, eagerly_as_told: bool = False, stance: Any = "default"
) -> list[tuple[bool, int]]:
    """Whether each change is scratch memory, and its bytes."""
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()), fuse_updates(memory, eagerly_as_told):
        parameter, gradient = torch.zeros(NUMBERS), torch.zeros(NUMBERS)
        memory.begin()
        with torch.compiler.set_stance(stance):
            torch.compile(function, fullgraph=True)(parameter, gradient, state)
        return [(event.address == SCRATCH, event.size) for event in memory.recorded.allocations]


@pytest.fixture
def torchaos(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(update, "__module__", "torchao.optim.adam")
    return update


@pytest.mark.parametrize(("state", "each"), [(OptimState8bit(), 8), (OptimState4bit(), 26)])
def test_what_is_between_fused_kernels_is_scratch(torchaos: Callable[..., Any], state: object, each: int) -> None:
    assert changes_of(torchaos, state) == [(True, each * NUMBERS), (True, -each * NUMBERS)]


def test_plain_state_is_updated_in_one_kernel(torchaos: Callable[..., Any]) -> None:
    assert changes_of(torchaos, torch.zeros(NUMBERS)) == []
    assert changes_of(torchaos, torch.zeros(NUMBERS), stance="force_eager") == []


def test_a_run_that_compiles_nothing_is_planned_op_by_op(torchaos: Callable[..., Any]) -> None:
    changes = changes_of(torchaos, OptimState8bit(), eagerly_as_told=True, stance="force_eager")
    assert changes == [(False, 4 * NUMBERS), (False, -4 * NUMBERS)]
    assert changes_of(update, None, eagerly_as_told=True) == []  # compiled


def test_functions_of_others_are_compiled_as_before() -> None:
    assert changes_of(update, None, stance="force_eager") == [(False, 4 * NUMBERS), (False, -4 * NUMBERS)]


@pytest.mark.parametrize(
    ("state", "stance", "moved"),
    [
        (torch.zeros(NUMBERS), "default", {"optimizer_update_torchao": (2 * (4 + 4) + 4) * NUMBERS}),
        (OptimState4bit(), "default", {"optimizer_update_torchao": (2 * (4 + 26) + 4) * NUMBERS}),
        (torch.zeros(NUMBERS), "force_eager", {"aten::mul": 8 * NUMBERS, "aten::add_": 12 * NUMBERS}),
    ],
    ids=["plain", "4 bits", "eager"],
)
def test_a_fused_update_takes_the_time_of_one_kernel(
    torchaos: Callable[..., Any], state: object, stance: Any, moved: dict[str, int]
) -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()), fuse_updates(memory, eagerly_as_told=True):
        parameter, gradient = torch.zeros(NUMBERS), torch.zeros(NUMBERS)
        with StepOps() as ops, torch.compiler.set_stance(stance):
            torch.compile(torchaos, fullgraph=True)(parameter, gradient, state)
    assert {each.work.op: each.work.bytes for each in ops.issued if isinstance(each, StepOp)} == moved
