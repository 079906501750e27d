"""Norms that show what losses hide."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

from perfkit.instruments.facts.training_norms import measure_buffer_norm, watch_gradient_norm
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.state import TrainState, World
from tests.unit.techniques.tiny import WORKLOAD, applied, batches, new_state, train


@pytest.fixture
def two_ranks() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


def measure_gradients(state: TrainState, parts: int, *, averaged: bool) -> dict[str, float]:
    """The norm of a batch in equal parts, whose gradients are averaged or summed."""
    (batch,) = batches(state, 0)
    with watch_gradient_norm(state) as fact:
        for part in range(parts):
            rows = {name: tensor.chunk(parts)[part] for name, tensor in batch.items()}
            state.backward(state.loss(rows) / (parts if averaged else 1))
        state.update()
    return fact


def test_summed_microbatches_have_larger_gradients() -> None:
    whole, mean, total = (
        measure_gradients(applied("baseline").state, parts, averaged=averaged)["gradient_norm"]
        for parts, averaged in ((1, True), (2, True), (2, False))
    )
    assert mean == pytest.approx(whole, rel=1e-4)
    assert total == pytest.approx(2 * whole, rel=1e-4)


def test_an_optimizer_without_an_update_leaves_it_unknown() -> None:
    state = applied("baseline").state
    with watch_gradient_norm(state) as fact:
        state.backward(state.loss(batches(state, 0)[0]))
    assert fact == {}


@pytest.mark.parametrize("variant", ["optim_in_backward", "offload:what=optimizer:to=disk"])
def test_updates_of_a_few_parameters_at_a_time_add_up(variant: str) -> None:
    norms = []
    for name in ("baseline", variant):
        made = applied(name, new_state())
        with watch_gradient_norm(made.state) as facts:
            train(made.state, steps=2)
        norms.append(facts["gradient_norm"])
        made.state.close()
    assert norms[1] == pytest.approx(norms[0], rel=0.02)  # of the first step alone


def fill_gradients(optimizer: torch.optim.Optimizer, *_: object) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            get_local_part(parameter.grad).fill_(0.5)


@pytest.mark.usefixtures("two_ranks")
def test_ranks_share_the_square_of_what_they_hold_together() -> None:
    """A rank's copy of all gradients is half of the square over two ranks, and its shard counts whole."""
    replicated = new_state(world=World(size=2))
    replicated.build_optimizers()
    sharded = applied("zero3", new_state(world=World(size=2))).state
    for optimizer in sharded.optimizers.values():  # whose gradients no rank has sent: they are what memory held
        optimizer.register_step_pre_hook(fill_gradients)
    shares = []
    for state in (replicated, sharded):
        with watch_gradient_norm(state) as facts:
            train(state, steps=1)
        shares.append(facts["gradient_norm_share"] / facts["gradient_norm"])
        state.close()
    assert shares == pytest.approx([0.5**0.5, 1.0])


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer, self.again = nn.BatchNorm1d(16), nn.Linear(16, 16), False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(0, 1) + 1
        y = checkpoint(self.norm, x, use_reentrant=False) if self.again else self.norm(x)
        return self.layer(y)


def test_recomputed_batch_norm_leaves_other_buffers() -> None:
    workload = replace(
        WORKLOAD,
        build_model=Normed,
        loss=lambda model, batch: F.mse_loss(model(batch["x"]), batch["y"].flatten(0, 1)),
        blocks=lambda _model: (),
    )
    norms, losses = [], []
    for again in (False, True):
        state = applied("baseline", new_state(workload)).state
        state.model.again = again
        losses.append(train(state, steps=3))
        norms.append(measure_buffer_norm(state.model)["buffer_norm"])
    assert losses[0] == losses[1]
    assert norms[1] > 1.2 * norms[0]
    masked = nn.Linear(2, 2)
    assert measure_buffer_norm(masked) == {}
    masked.register_buffer("mask", torch.full((2, 2), float("-inf")).triu(1))
    assert measure_buffer_norm(masked) == {}
