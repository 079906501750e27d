"""The modules by which a loop evaluates that its training steps do not call."""

import copy

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from perfkit.attach.loop.evaluation_modules import find_evaluation_modules
from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.attach.loop.step_finder import StepFinder


class Coder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.steps = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.act = nn.ReLU()


class Engine(nn.Module):
    """A wrapper with a name of its own for what it holds."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner


def test_parts_wrapped_modules_and_averages_are_found() -> None:
    coder = Coder(7)
    average = AveragedModel(coder)
    others = {coder, *coder.steps, coder.norm, average.module}
    assert set(find_evaluation_modules([Engine(coder)])) == others
    assert set(find_evaluation_modules([coder])) == others - {coder}


def test_modules_of_other_sizes_and_parts_of_stock_modules_are_none() -> None:
    kept = [Coder(11), nn.Sequential(nn.Linear(11, 3))]
    assert set(find_evaluation_modules([Coder(13)])).isdisjoint(kept)
    assert find_evaluation_modules([nn.Sequential(nn.Linear(17, 5), nn.Linear(5, 17))]) == ()


def test_a_copy_counts_unless_it_is_trained() -> None:
    loop, model = LoopFollower(StepFinder(), lambda: None), nn.Linear(3, 2)
    average = copy.deepcopy(model)
    loop.untrained = {id(average)}
    loop.forward(average, (), {})
    assert (loop.counts.evaluations, loop.counts.forwards, loop.heard) == (0, 0, False)
    average.eval()
    loop.forward(average, (), {})
    with torch.no_grad():
        average.train()
        loop.forward(average, (), {})
    assert (loop.counts.evaluations, loop.counts.forwards, loop.called) == (2, 0, set())
