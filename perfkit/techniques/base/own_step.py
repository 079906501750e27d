"""A workload's own step, with techniques acting on it: several losses, backward passes, models and optimizers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.core.errors import UsageError
from perfkit.techniques.base.phases import Mark, Phases
from perfkit.techniques.base.state import Closure, TrainState
from perfkit.workloads.training import Losses
from perfkit.workloads.workload import Batch, make_optimizers

Update = Callable[[Optimizer, Closure | None], object]


def run_step(state: TrainState, batch: Batch, mark: Mark = lambda _phase: nullcontext()) -> torch.Tensor:
    """One step as the workload does it, marked by phases; the sum of its losses, detached.

    What is neither backward nor an update is the forward pass, around which the forward contexts are entered.
    """
    training = _OwnStepTraining(state, state.optimizers, state.optimizer_step, mark)
    loss = training.run(batch)
    with mark("optimizer"):
        state.after_updates()
    return loss


def run_trial_step(state: TrainState, batch: Batch) -> torch.Tensor:
    """Run one step that leaves the state unchanged: its optimizers do not update, and gradients are cleared."""
    model = state.model
    with state.unwrap_model():
        optimizers = make_optimizers(state.workload, model)
    kept = [(tensor, tensor.detach().clone()) for tensor in (*model.parameters(), *model.buffers())]
    try:
        return _OwnStepTraining(state, optimizers, _evaluate_closure).run(batch)
    finally:
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for tensor, before in kept:
                tensor.copy_(before)


def _evaluate_closure(_optimizer: Optimizer, closure: Closure | None) -> None:
    if closure is not None:
        closure()


class _OwnStepTraining:
    """Implements `perfkit.workloads.training.Training`."""

    def __init__(
        self,
        state: TrainState,
        optimizers: Mapping[str, Optimizer],
        update: Update,
        mark: Mark = lambda _phase: nullcontext(),
    ) -> None:
        self._state = state
        self._mark = mark
        self._phases = Phases(self._enter_phase)
        self.models: Mapping[str, nn.Module] = MappingProxyType(state.called)
        self.optimizers = {
            name: _Updates(optimizer, update, self._phases.within) for name, optimizer in optimizers.items()
        }

    @property
    def model(self) -> nn.Module:
        if "" not in self.models:
            raise UsageError(
                f"the workload {self._state.workload.name} has several models, {', '.join(self.models)}; its "
                "step must call each as training.models[NAME]"
            )
        return self.models[""]

    def backward(self, loss: torch.Tensor) -> None:
        with self._phases.within("backward"):
            self._state.backward(loss)

    def run(self, batch: Batch) -> torch.Tensor:
        workload = self._state.workload
        assert workload.step is not None, "only asked for where the workload has a step of its own"
        with self._phases.within("forward"):
            returned = workload.step(self, batch)
        return _sum_losses(returned, workload.name, self._state.device)

    @contextmanager
    def _enter_phase(self, phase: str) -> Iterator[None]:
        with self._mark(phase), self._state.enter_forward_contexts() if phase == "forward" else nullcontext():
            yield


class _Updates:
    """Implements `perfkit.workloads.training.StepOptimizer`."""

    def __init__(
        self, optimizer: Optimizer, update: Update, within: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._optimizer = optimizer
        self._update = update
        self._within = within

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self._optimizer.param_groups

    def step(self, closure: Closure | None = None) -> None:
        def evaluated() -> torch.Tensor:
            assert closure is not None
            with self._within("forward"), torch.enable_grad():
                return closure()

        with self._within("optimizer"):
            self._update(self._optimizer, None if closure is None else evaluated)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._optimizer.zero_grad(set_to_none=set_to_none)


def _sum_losses(returned: Losses, name: str, device: torch.device) -> torch.Tensor:
    losses = returned if isinstance(returned, Mapping) else {"loss": returned}
    for key, loss in losses.items():
        if not (isinstance(loss, float) or (isinstance(loss, torch.Tensor) and loss.numel() == 1)):
            raise UsageError(
                f"step of {name} returned {type(loss).__name__} for {key!r}; expected the loss, or a dict of "
                "losses, each one number"
            )
    total = torch.zeros((), device=device)
    for loss in losses.values():
        total += loss.detach().reshape(()) if isinstance(loss, torch.Tensor) else loss
    return total
