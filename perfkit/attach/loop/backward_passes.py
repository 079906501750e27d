"""Finds steps of loops without an optimizer, by their backward passes, and the trained tensors by their gradients."""

import weakref

import torch

from perfkit.instruments.training.live_objects import find_instances

# Backward passes to wait for an optimizer step, before inspecting them.
_PATIENCE = 10
# Times in a row that gradients must be cleared: accumulated ones are not cleared twice.
_SURE = 2


class BackwardPasses:
    """The backward passes of a loop in which no optimizer has stepped.

    Each pass counts as a step where gradients are cleared before every one; otherwise the loop accumulates them for an
    optimizer that has not stepped yet.

    Attributes:
        steps: whether they are.
    """

    def __init__(self) -> None:
        self.steps = False
        self._count = 0
        self._cleared = 0
        self._looked = False
        self._holders: list[weakref.ref[torch.Tensor]] = []

    def begin_pass(self) -> None:
        """A backward pass begins, and no optimizer has stepped."""
        if self.steps or self._count < _PATIENCE:
            return
        self._cleared = self._cleared + 1 if not any(map(_has_gradient, self.holders)) else 0
        self.steps = self._cleared >= _SURE
        if not self._cleared:
            self._count = 0

    def end_pass(self) -> None:
        """A pass ended: the tensors with gradients now are the trained ones."""
        self._count += 1
        if self._count == _PATIENCE:
            self.look()

    def look(self) -> None:
        """Find the tensors with gradients, once: the search covers all of memory."""
        if not self._looked:
            self._looked = True
            self._holders = [weakref.ref(tensor) for tensor in find_gradient_holders()]

    @property
    def holders(self) -> tuple[torch.Tensor, ...]:
        """The tensors found that the program still has."""
        return tuple(tensor for known in self._holders if (tensor := known()) is not None)

    def let_go(self) -> None:
        """Release everything: an optimizer steps, or watching ended."""
        self.steps = self._looked = False
        self._count = self._cleared = 0
        self._holders = []


def find_gradient_holders() -> list[torch.Tensor]:
    """All trained tensors of the process that have a gradient."""
    with torch._C.DisableTorchFunctionSubclass():  # subclasses may answer in their own way
        tensors: list[torch.Tensor] = find_instances(torch.Tensor)
        return [tensor for tensor in tensors if tensor.is_leaf and tensor.requires_grad and tensor.grad is not None]


def _has_gradient(tensor: torch.Tensor) -> bool:
    """True if the tensor has a nonzero gradient. Distributed and sparse ones are not checked: that would be an op of
    all ranks, or a missing one."""
    gradient = tensor.grad
    if gradient is None:
        return False
    if type(gradient) is not torch.Tensor or gradient.layout != torch.strided:
        return True
    with torch.no_grad():
        return bool(gradient.any())
