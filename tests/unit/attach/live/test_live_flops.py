"""FLOPs counted between two boundaries of a loop: the right number, and nothing else changes."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from perfkit.attach.live.step_flops import count_step_flops
from perfkit.attach.loop.phase_marks import PhaseMarks
from perfkit.core.record.quantity import Measurement, Unknown
from perfkit.cost.live_flops import count_flops
from perfkit.instruments.recording import drive_recording


@pytest.fixture(autouse=True)
def _nothing_compiled_yet() -> None:
    """Other tests compile in this process."""
    torch._dynamo.utils.counters.clear()


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 8), nn.Dropout(0.1))


def losses(model: nn.Module, steps: int, counting: bool) -> list[float]:
    """Of a loop with a dropout and momentum, whose third step is counted or not."""
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []

    def step(index: int) -> None:
        x = torch.randn(5, 3, 8, 8)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())

    for index in range(steps):
        if counting and index == 2:
            drive_recording(count_step_flops({"": model}, PhaseMarks()), step, index)
        else:
            step(index)
    return found


def test_the_losses_are_the_same_to_the_bit() -> None:
    model = mlp()
    plain = losses(copy.deepcopy(model), 20, counting=False)
    assert losses(model, 20, counting=True) == plain


def test_what_is_counted_is_what_the_step_does() -> None:
    model = mlp()
    x = torch.randn(5, 3, 8, 8)

    def step(index: int = 0) -> None:
        model(x).square().mean().backward()

    with FlopCounterMode(display=False) as reference:
        step()
    found = drive_recording(count_step_flops({"": model}, PhaseMarks()), step, 0).total
    assert isinstance(found, Measurement)
    assert found.value == reference.get_total_flops() == count_flops(step).matrix
    assert found.unit == "FLOP"


def test_products_of_the_optimizer_are_not_the_models() -> None:
    model, marks = nn.Linear(24, 16, bias=False), PhaseMarks()
    x, factor = torch.randn(10, 24), torch.randn(16, 16)

    def step(index: int = 0) -> None:
        model(x).sum().backward()
        marks.enter("optimizer")
        with torch.no_grad():
            model.weight -= factor @ model.weight  # 2 * 16 * 16 * 24 FLOPs, as an orthogonalization does
        marks.leave("optimizer")

    found = drive_recording(count_step_flops({"": model}, marks), step, 0)
    assert isinstance(found.total, Measurement)
    assert found.total.value == 2 * (2 * 10 * 24 * 16)  # forward, and the weight's gradient
    assert sum(found.by_operands.values()) == found.total.value


def test_a_count_that_is_given_up_leaves_nothing_behind() -> None:
    count = count_step_flops({"": mlp()}, PhaseMarks())
    next(count)
    count.close()
    assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []


def reason(model: nn.Module) -> str:
    """Why nothing was counted; the loop must not even be asked for a step."""

    def step(index: int) -> None:
        raise AssertionError("a step was wanted")

    found = drive_recording(count_step_flops({"": model}, PhaseMarks()), step, 0).total
    assert isinstance(found, Unknown)
    return found.reason


def test_compiled_modules_are_left_alone() -> None:
    assert "compiled" in reason(torch.compile(mlp()))
    inside = mlp()
    inside[3].compile()
    assert "compiled" in reason(inside)


def test_compiled_functions_are_left_alone() -> None:
    double = torch.compile(lambda x: x * 2, backend="eager")
    double(torch.ones(2))
    assert "compiled" in reason(mlp())


def test_other_modes_are_left_alone() -> None:
    with FlopCounterMode(display=False):
        assert "TorchDispatchMode" in reason(mlp())


def test_data_parallel_threads_are_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.DataParallel(mlp())
    monkeypatch.setattr(model, "device_ids", [0, 1])
    assert "DataParallel" in reason(model)


def test_a_step_without_products_is_not_zero() -> None:
    found = drive_recording(count_step_flops({"": mlp()}, PhaseMarks()), lambda index: None, 0).total
    assert isinstance(found, Unknown)
    assert "no GEMM" in found.reason


def test_ops_without_a_formula_are_named() -> None:
    def step(index: int) -> None:
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        torch.special.bessel_j1(torch.ones(3))

    found = drive_recording(count_step_flops({"": mlp()}, PhaseMarks()), step, 0).total
    assert isinstance(found, Measurement)
    assert found.value == 16
    assert "without aten::special_bessel_j1" in found.source
