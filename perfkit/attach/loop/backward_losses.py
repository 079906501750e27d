"""Keeps the losses of a loop's first steps: the scalars that its backward passes begin with."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.autograd
from torch._subclasses.functional_tensor import FunctionalTensor

from perfkit.cost.torch_fakes import FakeTensor
from perfkit.instruments.autograd_state import is_in_backward
from perfkit.instruments.compile_exclusion import exclude_from_compile

# What torch.compile calls backward passes with while it traces one.
_TRACED = (FakeTensor, FunctionalTensor)


class BackwardLosses:
    """Losses of the first `most` steps, kept on their device and read when the loop waits: no step waits for them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._steps: list[list[torch.Tensor | None]] = [[]]

    def install(self, before: Callable[[], None]) -> None:
        """Follow backward passes from now on. Before each, `before` is called."""
        engine: Any = torch.autograd  # the function is not exported, and found there by torch's own callers
        original = engine._engine_run_backward

        @exclude_from_compile
        def followed(roots: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
            if not is_in_backward() and not any(isinstance(root, _TRACED) for root in roots):
                before()
                if len(self._steps) <= self._most:
                    self._steps[-1] += [_copy_scalar(root) for root in roots]
            return original(roots, *args, **kwargs)

        engine._engine_run_backward = followed

    def end_step(self) -> None:
        """A step of the loop has ended."""
        if len(self._steps) <= self._most:
            self._steps.append([])

    def read(self) -> tuple[tuple[float | None, ...], ...]:
        """The losses of the steps that have ended, of each in the order of its backward passes."""
        ended = self._steps[: min(len(self._steps) - 1, self._most)]
        return tuple(tuple(None if loss is None else loss.item() for loss in step) for step in ended)


def _copy_scalar(root: torch.Tensor) -> torch.Tensor | None:
    return root.detach().clone() if root.numel() == 1 else None
