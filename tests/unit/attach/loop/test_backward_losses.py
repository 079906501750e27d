"""The losses of a loop's first steps are those that its backward passes begin with."""

import pytest
import torch
import torch.autograd

from perfkit.attach.loop.backward_losses import BackwardLosses


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> BackwardLosses:
    """Losses of at most two steps; the engine is put back."""
    monkeypatch.setattr(torch.autograd, "_engine_run_backward", torch.autograd.__dict__["_engine_run_backward"])
    followed = BackwardLosses(2)
    followed.install(lambda: None)
    return followed


def test_each_backward_pass_of_a_step_counts(losses: BackwardLosses) -> None:
    x = torch.ones(3, requires_grad=True)
    for step in range(4):
        (x * step).sum().backward()
        (x * 2).mean().backward()
        losses.end_step()
    assert losses.read() == ((0.0, 2.0), (3.0, 2.0))


def test_a_step_under_way_does_not_count_and_what_is_no_scalar_is_unknown(losses: BackwardLosses) -> None:
    x = torch.ones(2, requires_grad=True)
    (x * 2).backward(torch.ones(2))
    losses.end_step()
    x.sum().backward()
    assert losses.read() == ((None,),)
