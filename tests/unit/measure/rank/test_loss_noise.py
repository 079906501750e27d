"""The perturbation that an echo starts from, and training once more from the beginning."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from perfkit.core.record.claim import ParityRule
from perfkit.measure.rank import loss_noise
from perfkit.measure.rank.loaded_data import Microbatches
from perfkit.measure.rank.loss_noise import perturb_parameters, run_echo_pass, run_seeded_pass, select_furthest_losses
from perfkit.measure.rank.train_step import train_step
from perfkit.techniques.base.state import TrainState
from tests.unit.techniques.tiny import FOUR_BLOCKS, applied, batches, new_state


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_parameter_moves_by_one_relative_rounding(dtype):
    model = nn.Linear(8, 8, dtype=dtype)
    for parameter in model.parameters():
        nn.init.uniform_(parameter, 0.1, 1.0)  # a weight of exactly 0 would not move
    before = [parameter.detach().clone() for parameter in model.parameters()]
    perturb_parameters(model)
    eps = torch.finfo(dtype).eps
    for old, new in zip(before, model.parameters(), strict=True):
        change = (new.detach().double() / old.double() - 1).abs()
        assert change.min() >= 0.4 * eps  # a step down from a power of two is half as wide
        assert change.max() <= 2.1 * eps


def test_ranks_move_alike():
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    second.load_state_dict(first.state_dict())
    perturb_parameters(first)
    perturb_parameters(second)
    assert torch.equal(first.weight, second.weight)


def test_another_seed_moves_otherwise():
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    second.load_state_dict(first.state_dict())
    perturb_parameters(first, seed=0)
    perturb_parameters(second, seed=1)
    assert not torch.equal(first.weight, second.weight)


def test_of_each_step_the_loss_that_went_the_furthest_is_kept():
    echoes = [(3.0, 2.1, 1.0), (3.0, 1.95, 1.3), (3.2, 2.0, math.nan)]
    kept = select_furthest_losses((3.0, 2.0, 1.0), echoes)
    assert kept[:2] == (3.2, 2.1)
    assert math.isnan(kept[2])
    assert select_furthest_losses((None,), [(1.0,), (2.0,)]) in ((1.0,), (2.0,))


@pytest.mark.parametrize(("step_s", "trained"), [(0.1, 4), (0.8, 3), (10.0, 1)])
def test_echoes_are_trained_from_the_beginning_while_there_is_time(
    step_s: float, trained: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = applied("ckpt", new_state(FOUR_BLOCKS)).state
    built = weights_of(state)
    first = tuple(float(train_step(state, batches(state, step), step)) for step in range(3))
    begun: list[int] = []
    moved: list[float] = []
    now = [0.0]

    def batches_of(step: int) -> Microbatches:
        if step == 0:
            moved.append(float((weights_of(state) - built).abs().max()))
        begun.append(step)
        now[0] += 10 / 3 * step_s
        return batches(state, step)

    monkeypatch.setattr(loss_noise, "perf_counter", lambda: now[0])
    found: dict[str, tuple[float, ...]] = {}
    run_echo_pass(
        SimpleNamespace(
            spec=SimpleNamespace(seed=0, schedule=SimpleNamespace(parity=3)),
            data=SimpleNamespace(rewind=lambda index: None),
            state=state,
            batches=batches_of,
            agree=bool,
            recorder=SimpleNamespace(record=SimpleNamespace(losses=first), update=found.update),
        )
    )
    assert begun == [0, 1, 2] * trained
    assert found["perturbed_losses"] == pytest.approx(first, rel=1e-5)
    assert all(0 < most < 1e-5 for most in moved)
    # Of one echo they may round to the same, by the processor.
    assert found["perturbed_losses"] != first or trained == 1


def weights_of(state: TrainState) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in state.model.parameters()])


def test_frozen_integers_stay():
    model = nn.Linear(8, 8)
    model.weight = nn.Parameter(torch.ones(8, 8, dtype=torch.int8), requires_grad=False)
    before = model.bias.detach().clone()
    perturb_parameters(model)
    assert (model.weight == 1).all()
    assert not torch.equal(model.bias, before)


@pytest.mark.parametrize(("relative", "trained"), [(1e-5, True), (None, False)])
def test_a_model_whose_blocks_are_joined_is_trained_again_from_its_beginning(
    relative: float | None, trained: bool
) -> None:
    state = applied("ckpt:every=2", new_state(FOUR_BLOCKS)).state
    first = [float(train_step(state, batches(state, step), step)) for step in range(3)]
    found: dict[str, tuple[float, ...]] = {}
    record = SimpleNamespace(
        facts={"random_forward": 1.0, "graphs": 1.0}, parity=ParityRule(relative=relative, basis="")
    )
    run_seeded_pass(
        SimpleNamespace(
            spec=SimpleNamespace(seed=0, schedule=SimpleNamespace(parity=3)),
            data=SimpleNamespace(rewind=lambda index: None),
            state=state,
            batches=lambda step: batches(state, step),
            recorder=SimpleNamespace(record=record, update=found.update),
        )
    )
    assert found == ({"seeded_losses": pytest.approx(first)} if trained else {})
    state.close()
