"""Interface that a workload's own step is given: the models and optimizers as techniques left them, and the backward
pass."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import nn

# What a step returns: the loss, or several by name, of which the sum is shown and compared.
Losses = torch.Tensor | float | Mapping[str, torch.Tensor | float]


class StepOptimizer(Protocol):
    """An optimizer within a step."""

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...

    def step(self, closure: Callable[[], torch.Tensor] | None = None) -> None:
        """One update. A `closure` clears the gradients, computes the loss, calls `backward` with it and returns it."""
        ...

    def zero_grad(self, set_to_none: bool = True) -> None: ...


class Training(Protocol):
    """Interface that a step calls instead of its own model, `loss.backward()` and `optimizer.step()`."""

    @property
    def model(self) -> nn.Module:
        """The model, if there is one."""
        ...

    @property
    def models(self) -> Mapping[str, nn.Module]:
        """The models by name, if there are several."""
        ...

    @property
    def optimizers(self) -> Mapping[str, StepOptimizer]:
        """The optimizers by the names that `build_optimizer` gave them; "" where it returned one."""
        ...

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass of a loss."""
        ...
