"""The logits of whatever a loss is computed from: what it gives to torch's cross-entropy."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode


class LogitsRecorder(TorchFunctionMode):
    """While it is entered, keeps the logits of each `F.cross_entropy` as rows (n, classes).

    `instead`: the cross-entropy itself is not computed but is 0, for a model of which the logits are all that is asked.
    """

    def __init__(self, *, instead: bool = False) -> None:
        super().__init__()
        self.found: list[torch.Tensor] = []
        self._instead = instead

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if func is not F.cross_entropy:
            return func(*args, **options)
        logits = args[0] if args else options["input"]
        self.found.append(_flatten_to_rows(logits))
        # Without a reduction there is a loss per target, which the calling code may inspect.
        if self._instead and options.get("reduction", "mean") != "none":
            return logits.new_zeros(())
        return func(*args, **options)


def _flatten_to_rows(logits: torch.Tensor) -> torch.Tensor:
    """Cross-entropy has the classes in the second dimension, or in the only one."""
    if logits.dim() == 1:
        return logits.unsqueeze(0)
    return logits.movedim(1, -1).flatten(0, -2)
