"""The tracker in the real Accelerator."""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import nn

from perfkit.attach.profile import Profile
from perfkit.core.record.rank_record import RunStatus
from perfkit.integrations.accelerate import PerfkitTracker
from tests.fixtures.integration_runs import (
    BATCH,
    OPTIONS,
    STEPS,
    Net,
    accumulated,
    batches,
    both_ranks_are_recorded,
    finished_job,
    record_of,
)
from tests.fixtures.random_states import random_states, seeded

ACCUMULATION = 2


def train(trackers: list[Any], *, fails_at: int | None = None) -> list[str]:
    torch.manual_seed(3)
    accelerator = Accelerator(cpu=True, log_with=trackers, gradient_accumulation_steps=ACCUMULATION)
    accelerator.init_trackers("cats", config={"rate": 0.1})
    net = Net()
    model, optimizer, data = accelerator.prepare(
        net,
        torch.optim.AdamW(net.parameters()),
        batches(ACCUMULATION * BATCH * STEPS * accelerator.num_processes),
    )
    losses = []
    for number, (x, labels) in enumerate(data, 1):
        if number == fails_at:
            raise RuntimeError("the disk is full of cats")
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item().hex())
        accelerator.log({"loss": loss.item()}, step=number)
    accelerator.end_training()
    return losses


def test_a_step_is_an_update_over_all_batches_that_it_accumulates(tmp_path: Path) -> None:
    train([PerfkitTracker(tmp_path / "x", **OPTIONS)])
    accumulated(tmp_path / "x", ACCUMULATION, timed=6)


def test_losses_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    seeded()
    plain, drawn = train([]), random_states()
    assert len(plain) == ACCUMULATION * STEPS
    seeded()
    assert train([PerfkitTracker(tmp_path / "x", **OPTIONS)]) == plain
    assert random_states() == drawn


def test_an_exception_is_recorded_where_the_tracker_is_entered(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cats"), PerfkitTracker(tmp_path / "x", **OPTIONS) as tracker:
        train([tracker], fails_at=20)
    record = record_of(tmp_path / "x")
    assert record.status == RunStatus.FAILED
    assert "the disk is full of cats" in record.reason


def test_the_program_gets_the_profile_from_accelerate(tmp_path: Path) -> None:
    with PerfkitTracker(tmp_path / "x", **OPTIONS) as tracker:
        accelerator = Accelerator(cpu=True, log_with=tracker)
        accelerator.init_trackers("cats")
        assert isinstance(accelerator.get_tracker("perfkit", unwrap=True), Profile)
    assert tracker.tracker is None


@pytest.mark.slow
@pytest.mark.nightly
def test_every_rank_is_recorded(tmp_path: Path) -> None:
    code = "train([PerfkitTracker(folder / 'x', **OPTIONS)])"
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    ended = finished_job(tmp_path, __name__, code, *launcher, ACCELERATE_USE_CPU="true")
    assert ended.returncode == 0, ended.stderr
    both_ranks_are_recorded(tmp_path / "x")
