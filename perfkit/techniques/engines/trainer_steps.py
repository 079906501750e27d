"""`Trainer.fit`, one step at a time: its loop waits in its data loader until a step is requested.

The loop runs in a greenlet, a call that can wait in the middle, in the same thread, so that profilers and counters of
the caller see it like any other code.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from greenlet import greenlet
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.optim import Optimizer

from perfkit.techniques.base.phases import Mark, Phases
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.engines.engine import get_lightning_options
from perfkit.workloads.workload import Batch, move_to_device


class TrainerSteps:
    """`TrainState.engine` with the Lightning Trainer.

    The fit begins with the first step, and ends in `close` or with a failing step. If the optimizers are rebuilt, a new
    fit begins. Every step has the first one's number of microbatches.
    """

    def __init__(self, state: TrainState) -> None:
        self._state = state
        self._fit: greenlet | None = None
        self._module: _LightningTraining | None = None
        self._optimizers: dict[str, Optimizer] = {}

    def __call__(self, batches: Sequence[Batch], mark: Mark) -> torch.Tensor:
        if self._fit is None or self._fit.dead or self._optimizers is not self._state.optimizers:
            self.close()
            self._optimizers = self._state.optimizers
            self._module = _LightningTraining(self._state)
            self._fit = greenlet(_run_fit)
            self._fit.switch(self._module, len(batches))
        assert self._module is not None
        self._module.begin(mark)
        self._fit.switch(batches)
        return sum(self._module.losses[1:], start=self._module.losses[0])

    def close(self) -> None:
        """Let the fit end as after its last batch."""
        if self._fit is not None and not self._fit.dead:
            self._fit.switch(())
        self._fit = None


def _run_fit(module: "_LightningTraining", microbatches: int) -> None:
    trainer = Trainer(
        max_epochs=1,
        accumulate_grad_batches=microbatches,
        callbacks=_UpdateCounter(module.state.counters),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **get_lightning_options(module.state.device),
    )
    trainer.fit(module, _StepLoader())


class _StepLoader:
    """A data loader that waits in the greenlet around it for the microbatches of a step; none end it.

    It says that it is long, else the Trainer would ask for a batch ahead to know which is the last.
    """

    def __len__(self) -> int:
        return sys.maxsize

    def __iter__(self) -> Iterator[Batch]:
        asking = greenlet.getcurrent().parent
        while batches := asking.switch():
            yield from batches


class _LightningTraining(LightningModule):
    """The workload as Lightning has it: automatic optimization of the one optimizer."""

    def __init__(self, state: TrainState) -> None:
        super().__init__()
        self.state = state
        self.model = state.model
        self.losses: list[torch.Tensor] = []
        self._phases = Phases(lambda _phase: nullcontext())

    def begin(self, mark: Mark) -> None:
        """A step begins, whose phases are marked so."""
        self.losses = []
        self._phases = Phases(mark)

    def configure_optimizers(self) -> list[Optimizer]:
        return list(self.state.optimizers.values())

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        with self._phases.within("data"):
            return move_to_device(batch, device, self.state.non_blocking)

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        with self._phases.within("forward"):
            return self.state.loss(batch)

    def backward(self, loss: torch.Tensor, *args: Any, **options: Any) -> None:
        self.losses.append(loss.detach())
        with self._phases.within("backward"):
            self.state.backward(loss)

    def optimizer_step(self, *of_the_call: Any, **options: Any) -> None:
        with self._phases.within("optimizer"):
            super().optimizer_step(*of_the_call, **options)


class _UpdateCounter(Callback):
    """Counts what only a Trainer calls."""

    def __init__(self, counters: dict[str, float]) -> None:
        self._counters = counters
        for name in ("engine_updates", "engine_batches"):
            counters.setdefault(name, 0.0)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        self._counters["engine_updates"] += 1.0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        self._counters["engine_batches"] += 1.0
