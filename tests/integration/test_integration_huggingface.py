"""The callback in the real Trainer: tiny models, data made here."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

os.environ["HF_HUB_OFFLINE"] = "1"

from transformers import Trainer, TrainerCallback, TrainingArguments

from perfkit.core.record.rank_record import RunStatus
from perfkit.integrations.huggingface import PerfkitCallback
from tests.fixtures.integration_runs import BATCH, OPTIONS, STEPS, Net, accumulated, finished_job, points, record_of
from tests.fixtures.random_states import random_states, seeded


class WithLoss(Net):
    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:  # type: ignore[override]
        logits = super().forward(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def collate(rows: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {"x": torch.stack([x for x, _ in rows]), "labels": torch.stack([label for _, label in rows])}


class Losses(TrainerCallback):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        self.seen += [logs["loss"].hex()] if logs and "loss" in logs else []


class FailsAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            raise RuntimeError("the disk is full of cats")


def trainer(folder: Path, callbacks: list[TrainerCallback], **options: Any) -> Trainer:
    arguments: dict[str, Any] = {
        "output_dir": str(folder / "out"),
        "max_steps": STEPS,
        "per_device_train_batch_size": BATCH,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "logging_steps": 1,
        "seed": 3,
    }
    torch.manual_seed(3)
    return Trainer(
        model=WithLoss(),
        args=TrainingArguments(**{**arguments, **options}),
        data_collator=collate,
        train_dataset=points(),
        eval_dataset=points(8),
        callbacks=callbacks,
    )


def test_a_step_is_an_update_over_all_batches_that_it_accumulates(tmp_path: Path) -> None:
    trainer(tmp_path, [PerfkitCallback(tmp_path / "x", **OPTIONS)], gradient_accumulation_steps=3).train()
    attached = accumulated(tmp_path / "x", 3, timed=6).attached_loop
    assert attached.models == ("WithLoss",)


def test_samples_are_not_called_tokens(tmp_path: Path) -> None:
    trainer(tmp_path, [PerfkitCallback(tmp_path / "x", **OPTIONS, unit="tokens")]).train()
    workload = record_of(tmp_path / "x").workload
    assert (workload.units_per_batch, workload.unit) == (BATCH, "samples")
    trainer(tmp_path, [PerfkitCallback(tmp_path / "y", **OPTIONS, unit="tokens", units_per_step=512)]).train()
    workload = record_of(tmp_path / "y").workload
    assert (workload.units_per_batch, workload.unit) == (512, "tokens")


@pytest.mark.parametrize("options", [{}, {"torch_compile": True, "torch_compile_backend": "eager"}])
def test_steps_with_an_evaluation_are_no_samples(tmp_path: Path, options: dict[str, Any]) -> None:
    callback = PerfkitCallback(tmp_path / "x", **OPTIONS)
    trainer(tmp_path, [callback], eval_strategy="steps", eval_steps=6, **options).train()
    attached = record_of(tmp_path / "x").attached_loop
    assert len(attached.excluded_steps_s) == 1
    assert attached.forwards == attached.backwards == attached.optimizer_steps == (1,) * 5


def test_losses_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    seen = []
    for callbacks in ([], [PerfkitCallback(tmp_path / "x", **OPTIONS)]):
        losses = Losses()
        seeded()
        trainer(tmp_path, [losses, *callbacks]).train()
        seen.append((losses.seen, random_states()))
    assert len(seen[0][0]) == STEPS
    assert seen[0] == seen[1]


def test_an_exception_is_recorded_where_the_callback_is_entered(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cats"), PerfkitCallback(tmp_path / "x", **OPTIONS) as callback:
        trainer(tmp_path, [callback, FailsAt(9)]).train()
    record = record_of(tmp_path / "x")
    assert record.status == RunStatus.FAILED
    assert "the disk is full of cats" in record.reason
    assert "FailsAt" not in record.reason
    assert "on_step_end" in record.traceback


def test_training_again_after_an_exception_finishes_the_first_run_and_records_another(tmp_path: Path) -> None:
    callback = PerfkitCallback(tmp_path / "x", **OPTIONS)
    failing = trainer(tmp_path, [callback, FailsAt(4)])
    with pytest.raises(RuntimeError, match="cats"):
        failing.train()
    failing.remove_callback(FailsAt)
    failing.train()
    first, second = record_of(tmp_path / "x"), record_of(tmp_path / "x-2")
    assert first.status == RunStatus.FAILED
    assert first.reason
    assert second.status == RunStatus.OK


@pytest.mark.slow
def test_an_exception_that_ends_the_program_is_recorded(tmp_path: Path) -> None:
    code = "trainer(folder, [PerfkitCallback(folder / 'x', **OPTIONS), FailsAt(9)]).train()"
    ended = finished_job(tmp_path, __name__, code)
    assert ended.returncode == 1
    assert ended.stderr.rstrip().splitlines()[-1].startswith("RuntimeError: the disk is full of cats")
    record = record_of(tmp_path / "x")
    assert record.status == RunStatus.FAILED
    assert "the disk is full of cats" in record.reason
