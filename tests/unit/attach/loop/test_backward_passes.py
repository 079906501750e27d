"""When backward passes are steps, of loops that clear gradients and of those that do not."""

import pytest
import torch
from torch import nn

from perfkit.attach.loop.backward_passes import BackwardPasses, find_gradient_holders
from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.attach.loop.model_discovery import find_roots
from perfkit.attach.loop.step_finder import StepFinder


@pytest.fixture(autouse=True)
def _no_other_gradients() -> None:
    """Models that other tests have left in memory have gradients that nobody clears."""
    for tensor in find_gradient_holders():
        tensor.grad = None


def follow(passes: BackwardPasses, count: int, clear: int | None = 1) -> nn.Module:
    """`count` backward passes, after each `clear` of which gradients are set to zero."""
    model = nn.Linear(2, 1)
    for number in range(1, count + 1):
        passes.begin_pass()
        model(torch.ones(3, 2)).sum().backward()
        passes.end_pass()
        if clear is not None and number % clear == 0:
            model.zero_grad(set_to_none=number % 2 == 0)
    return model


def test_cleared_before_every_pass() -> None:
    passes = BackwardPasses()
    follow(passes, 11)
    assert not passes.steps
    passes.let_go()
    model = follow(passes, 12)
    assert passes.steps
    assert find_roots(passes.holders) == (model,)


def test_accumulated_gradients_are_no_steps() -> None:
    for clear in (None, 2, 5, 10, 12):
        passes = BackwardPasses()
        follow(passes, 60, clear)
        assert not passes.steps


def test_without_gradients_that_are_kept_each_is_a_step() -> None:
    """As with torch.autograd.grad."""
    passes = BackwardPasses()
    for _ in range(12):
        passes.begin_pass()
        passes.end_pass()
    assert passes.steps
    assert passes.holders == ()


def test_what_holds_gradients_is_not_kept() -> None:
    passes = BackwardPasses()
    follow(passes, 12)
    assert find_roots(passes.holders) == ()


def test_an_optimizer_that_steps_after_all_tells_the_steps() -> None:
    boundaries: list[str] = []
    loop = LoopFollower(StepFinder(), lambda: boundaries.append(loop.steps_by()))
    for _ in range(15):
        loop.began("backward")
        loop.ended("backward", None)
    assert [boundary.split()[0] for boundary in set(boundaries)] == ["backward"]
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    loop.stepped(optimizer)
    assert not loop.passes.steps
    assert "SGD" in loop.steps_by()
