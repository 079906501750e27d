"""The callback in the real Lightning Trainer, under both names of the package."""

import importlib
from pathlib import Path
from typing import Any

import lightning.pytorch
import pytest
import torch
from torch import nn

from perfkit.core.record.rank_record import RunStatus
from perfkit.integrations.lightning import PerfkitCallback
from tests.fixtures.integration_runs import (
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

pytestmark = pytest.mark.filterwarnings("ignore")


def module_class(package: Any) -> Any:
    """Modules are classes of the package that trains them."""

    class Module(package.LightningModule):  # type: ignore[misc]
        fails_at: int | None = None

        def __init__(self) -> None:
            super().__init__()
            self.net = Net()
            self.losses: list[str] = []

        def training_step(self, batch: tuple[torch.Tensor, ...], batch_idx: int) -> torch.Tensor:
            if batch_idx == self.fails_at:
                raise RuntimeError("the disk is full of cats")
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.losses.append(loss.item().hex())
            return loss

        def validation_step(self, batch: tuple[torch.Tensor, ...], batch_idx: int) -> None:
            self.net(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    return Module


Module = module_class(lightning.pytorch)


class Adversarial(lightning.pytorch.LightningModule):
    """Two models and two optimizers; the second steps with every other batch."""

    def __init__(self) -> None:
        super().__init__()
        self.critic, self.generator = Net(), Net()
        self.automatic_optimization = False

    def training_step(self, batch: tuple[torch.Tensor, ...], batch_idx: int) -> None:
        for number, (model, optimizer) in enumerate(zip((self.critic, self.generator), self.optimizers(), strict=True)):
            if number == 0 or batch_idx % 2:
                optimizer.zero_grad()
                self.manual_backward(nn.functional.cross_entropy(model(batch[0]), batch[1]))
                optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(model.parameters(), lr=0.1) for model in (self.critic, self.generator)]


def fit(folder: Path, module: Any, callbacks: Any, package: Any = lightning.pytorch, **options: Any) -> None:
    torch.manual_seed(3)
    trainer = package.Trainer(
        accelerator="cpu",
        devices=options.pop("devices", 1),
        max_steps=options.pop("max_steps", STEPS),
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        **options,
    )
    trainer.fit(module, batches(), batches(4))


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_a_step_is_an_update_over_all_batches_that_it_accumulates(tmp_path: Path, package: str) -> None:
    library = importlib.import_module(package)
    callback = PerfkitCallback(tmp_path / "x", **OPTIONS)
    # Alone, not in a list: then the Trainer asks for the callback's class.
    fit(tmp_path, module_class(library)(), callback, library, accumulate_grad_batches=2)
    accumulated(tmp_path / "x", 2, timed=6)


def test_a_batch_is_a_step_however_many_optimizers_step_in_it(tmp_path: Path) -> None:
    fit(tmp_path, Adversarial(), [PerfkitCallback(tmp_path / "x", **OPTIONS)], max_steps=3 * STEPS // 2)
    record = record_of(tmp_path / "x")
    assert record.status == RunStatus.OK
    assert record.attached_loop.steps_seen == STEPS
    assert sorted(record.attached_loop.optimizer_steps) == [1, 1, 1, 2, 2, 2]
    assert record.attached_loop.optimizers == ("SGD, 4 parameters",) * 2


def test_steps_with_a_validation_are_no_samples(tmp_path: Path) -> None:
    fit(tmp_path, Module(), [PerfkitCallback(tmp_path / "x", **OPTIONS)], val_check_interval=6)
    attached = record_of(tmp_path / "x").attached_loop
    assert len(attached.excluded_steps_s) == 1
    assert attached.forwards == attached.backwards == (1,) * 5


def test_losses_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    seen = []
    for callbacks in ([], [PerfkitCallback(tmp_path / "x", **OPTIONS)]):
        seeded()
        module = Module()
        fit(tmp_path, module, callbacks)
        seen.append((module.losses, random_states()))
    assert len(seen[0][0]) == STEPS
    assert seen[0] == seen[1]


def test_an_exception_is_recorded(tmp_path: Path) -> None:
    module = Module()
    module.fails_at = 8
    with pytest.raises(RuntimeError, match="cats"):
        fit(tmp_path, module, [PerfkitCallback(tmp_path / "x", **OPTIONS)])
    record = record_of(tmp_path / "x")
    assert record.status == RunStatus.FAILED
    assert "the disk is full of cats" in record.reason
    assert "training_step" in record.traceback


@pytest.mark.slow
@pytest.mark.nightly
def test_every_rank_is_recorded(tmp_path: Path) -> None:
    code = "fit(folder, Module(), [PerfkitCallback(folder / 'x', **OPTIONS)], devices=2, strategy='ddp')"
    ended = finished_job(tmp_path, __name__, code)
    assert ended.returncode == 0, ended.stderr
    both_ranks_are_recorded(tmp_path / "x")
