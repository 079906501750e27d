"""Counts the padding among the tokens that a model is called with."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from perfkit.attach.loop.step_units import find_tensors

# Calls that are looked at: comparing the tokens of each would cost time in every step.
_MOST_CALLS = 16
_MASK = "attention_mask"


class PaddingCount:
    """The share of padding: of an attention mask its zeros, else the tokens that are the only padding index of the
    model's embeddings. Nothing waits for a device before the share is read."""

    def __init__(self) -> None:
        self._calls = 0
        self._padding: list[torch.Tensor] = []
        self._tokens = 0

    def look(self, model: nn.Module, inputs: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Count the tokens of a call, if it is one of the first."""
        if self._calls >= _MOST_CALLS:
            return
        self._calls += 1
        mask = named.get(_MASK)
        if isinstance(mask, torch.Tensor) and mask.dim() == 2 and not mask.is_floating_point():
            self._add(mask == 0)
            return
        indices = {
            module.padding_idx
            for module in model.modules()
            if isinstance(module, nn.Embedding) and module.padding_idx is not None
        }
        if len(indices) == 1:
            [index] = indices
            for tensor in find_tensors((inputs, named)):
                if tensor.dim() >= 2 and tensor.dtype in (torch.int64, torch.int32):
                    self._add(tensor == index)

    def _add(self, is_padding: torch.Tensor) -> None:
        self._padding.append(is_padding.sum())
        self._tokens += is_padding.numel()

    def compute_share(self) -> float | None:
        """The share of all tokens seen; None if none were."""
        return sum(int(count.item()) for count in self._padding) / self._tokens if self._tokens else None
