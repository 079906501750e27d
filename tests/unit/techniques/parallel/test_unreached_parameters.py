"""Parameters that the loss does not reach, by a forward pass that leaves nothing behind."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from perfkit.techniques.base.state import TrainState
from perfkit.techniques.parallel.unreached_parameters import find_unreached_parameters
from perfkit.workloads.workload import Workload
from tests.unit.techniques.tiny import WORKLOAD, new_state


class Net(nn.Module):
    def __init__(self, *, hidden: bool = False) -> None:
        super().__init__()
        self.first, self.idle, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.frozen = nn.Parameter(torch.zeros(2), requires_grad=False)
        self.norm = nn.BatchNorm1d(8)
        self.hidden = hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norm(self.first(x))
        again = checkpoint(torch.nn.functional.gelu, inner, use_reentrant=self.hidden)
        out: torch.Tensor = self.last(again)
        return out


def make_workload(build: Callable[[], nn.Module]) -> Workload:
    return replace(
        WORKLOAD,
        build_model=build,
        make_batch=lambda generator: {"x": torch.randn(6, 4, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )


def list_names(state: TrainState) -> set[str]:
    found = find_unreached_parameters(state)
    return {name for name, parameter in state.model.named_parameters() if parameter in found}


def test_the_trained_parameters_without_a_gradient_are_found() -> None:
    state = new_state(make_workload(Net))
    running = state.model.get_submodule("norm").running_mean.clone()  # type: ignore[union-attr, operator]
    drawn = torch.get_rng_state()
    assert list_names(state) == {"idle.weight", "idle.bias"}
    assert all(parameter.grad is None for parameter in state.model.parameters())
    assert torch.equal(state.model.get_submodule("norm").running_mean, running)  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), drawn)


def test_where_all_are_reached_there_are_none() -> None:
    assert list_names(new_state(WORKLOAD)) == set()


def test_a_step_of_its_own_tells_nothing() -> None:
    assert list_names(new_state(replace(make_workload(Net), loss=None, step=lambda *_: None))) == set()


def test_a_graph_that_hides_what_it_recomputes_tells_nothing() -> None:
    assert list_names(new_state(make_workload(lambda: Net(hidden=True)))) == set()


def test_plans_look_for_none() -> None:
    state = replace(new_state(make_workload(Net)), planned_for=torch.device("cuda"))
    assert list_names(state) == set()


class Counting(nn.Module):
    """Draws from every generator, counts its calls in three ways, and normalizes by the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.calls, self.rate, self.stage = 0, 1.0, "new"
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.rate *= random.random() + np.random.random() + torch.rand(()).item()
        self.stage = "used"
        self.seen = self.seen + len(x)
        self.steps += 1
        out: torch.Tensor = self.norm(self.layer(x))
        return out


def test_what_a_forward_pass_keeps_is_restored() -> None:
    state = new_state(make_workload(Counting))
    model = state.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    objects = {name: id(buffer) for name, buffer in model.named_buffers()}
    draws = random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()
    assert list_names(state) == set()
    assert (model.calls, model.rate, model.stage) == (0, 1.0, "new")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert {name: id(buffer) for name, buffer in model.named_buffers()} == objects
    assert (random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()) == draws
