"""The callback of Fabric: `fabric.setup` begins a profile, `fabric.call("on_train_end")` ends it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from torch import nn

from perfkit.core.record.rank_record import RunStatus
from perfkit.integrations.fabric import PerfkitFabricCallback
from tests.fixtures.integration_runs import BATCH, OPTIONS, STEPS, Net, accumulated, batches, record_of
from tests.fixtures.random_states import random_states, seeded

ACCUMULATION = 2


def train(callbacks: list[Any], *, apart: bool = False, fails_at: int | None = None) -> list[str]:
    """A loop with accumulation and an evaluation after its seventh update; `apart` sets up model and optimizer each."""
    torch.manual_seed(3)
    fabric = Fabric(accelerator="cpu", devices=1, callbacks=callbacks)
    net = Net()
    optimizer: Any = torch.optim.AdamW(net.parameters())
    model: Any
    if apart:
        model, optimizer = fabric.setup_module(net), fabric.setup_optimizers(optimizer)
    else:
        model, optimizer = fabric.setup(net, optimizer)
    data: Any = fabric.setup_dataloaders(batches(ACCUMULATION * BATCH * STEPS))
    losses = []
    for number, (x, labels) in enumerate(data, 1):
        if number == fails_at:
            raise RuntimeError("the disk is full of cats")
        loss = nn.functional.cross_entropy(model(x), labels)
        fabric.backward(loss)
        losses.append(loss.item().hex())
        if number % ACCUMULATION == 0:
            optimizer.step()
            optimizer.zero_grad()
        if number == 7 * ACCUMULATION:
            model.eval()
            with torch.no_grad():
                model(x)
            model.train()
    fabric.call("on_train_end")
    return losses


@pytest.mark.parametrize("apart", [False, True])
def test_a_step_is_an_update_over_all_batches_that_it_accumulates(tmp_path: Path, apart: bool) -> None:
    train([PerfkitFabricCallback(tmp_path / "x", **OPTIONS)], apart=apart)
    attached = accumulated(tmp_path / "x", ACCUMULATION, timed=5).attached_loop
    assert len(attached.excluded_steps_s) == 1


def test_losses_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    seeded()
    plain, drawn = train([]), random_states()
    assert len(plain) == ACCUMULATION * STEPS
    seeded()
    assert train([PerfkitFabricCallback(tmp_path / "x", **OPTIONS)]) == plain
    assert random_states() == drawn


def test_an_exception_is_recorded_where_the_callback_is_entered(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cats"), PerfkitFabricCallback(tmp_path / "x", **OPTIONS) as callback:
        train([callback], fails_at=20)
    record = record_of(tmp_path / "x")
    assert record.status == RunStatus.FAILED
    assert "the disk is full of cats" in record.reason


def test_an_exception_is_recorded_where_fabric_is_told_of_it(tmp_path: Path) -> None:
    callback = PerfkitFabricCallback(tmp_path / "x", **OPTIONS)
    fabric = Fabric(accelerator="cpu", devices=1, callbacks=[callback])
    try:
        train([callback], fails_at=20)
    except RuntimeError as error:
        fabric.call("on_exception", error)
    assert record_of(tmp_path / "x").status == RunStatus.FAILED


def test_a_profile_that_has_ended_does_not_begin_again(tmp_path: Path) -> None:
    callback = PerfkitFabricCallback(tmp_path / "x", **OPTIONS)
    train([callback])
    train([callback])
    assert not (tmp_path / "x-2").exists()


def test_two_models_with_an_optimizer_each_are_one_loop(tmp_path: Path) -> None:
    fabric = Fabric(accelerator="cpu", devices=1, callbacks=[PerfkitFabricCallback(tmp_path / "x", **OPTIONS)])
    pairs: list[Any] = []
    for net in (Net(), Net()):
        pairs.append(fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1)))
    data: Any = fabric.setup_dataloaders(batches(BATCH * STEPS))
    for x, labels in data:
        for model, optimizer in pairs:
            optimizer.zero_grad()
            fabric.backward(nn.functional.cross_entropy(model(x), labels))
            optimizer.step()
    fabric.call("on_train_end")
    record = record_of(tmp_path / "x")
    assert record.status == RunStatus.OK
    assert record.attached_loop.optimizer_steps == (2,) * 6
    assert len(record.attached_loop.models) == 2
