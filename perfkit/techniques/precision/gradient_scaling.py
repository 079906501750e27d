"""Gradient scaling in a step with any number of optimizers and updates."""

import torch
from torch.optim import Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.techniques.base.state import Closure, TrainState


class GradientScaling:
    """Scales losses before backward and gradients back before an update; an update that overflowed is left out.

    There is one scale, which stays as it is until the step is over: gradients of losses that were scaled by it may
    still wait for their update. Then it is halved if any update overflowed.
    """

    def __init__(self, state: TrainState) -> None:
        self._scaler = torch.amp.GradScaler(state.device.type)
        self._backward = state.backward
        self._skipped = state.skipped_updates
        self._first = 0  # the first update of this step
        self._forgotten = 0  # and those that the scaler has forgotten
        self._checked: set[int] = set()
        state.backward = self.backward
        state.optimizer_step = self.update
        state.after_updates = self.end_step

    def backward(self, loss: torch.Tensor) -> None:
        self._backward(self._scaler.scale(loss))

    def update(self, optimizer: Optimizer, closure: Closure | None) -> None:
        if closure is not None:
            raise UnavailableError(
                f"{type(optimizer).__name__} evaluates the loss within its update, which a gradient "
                "scaler cannot check",
                id="skip.closure",
            )
        if id(optimizer) in self._checked:
            self._reset_scaler()
        self._checked.add(id(optimizer))
        self._skipped.append(True)
        handle = optimizer.register_step_post_hook(self._record_update)
        try:
            self._scaler.step(optimizer)
        finally:
            handle.remove()

    def end_step(self) -> None:
        if self._checked:
            if any(bool(flag) for flag in self._skipped[self._first : self._forgotten]):
                self._scaler.update(new_scale=self._scaler.get_scale() * self._scaler.get_backoff_factor())
            else:
                self._scaler.update()
        self._checked.clear()
        self._first = self._forgotten = len(self._skipped)

    def _record_update(self, optimizer: Optimizer, *_of_the_call: object) -> None:
        # Fused optimizers are called in any case, and leave the update out themselves.
        overflow = getattr(optimizer, "found_inf", None)
        self._skipped[-1] = False if overflow is None else overflow.clone()

    def _reset_scaler(self) -> None:
        """A scaler takes one update of each optimizer between two changes of its scale: change it to what it is."""
        self._scaler.update(new_scale=self._scaler.get_scale())
        self._checked.clear()
        self._forgotten = len(self._skipped)
