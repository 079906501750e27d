"""Memory layout of the outputs of 2-d convolutions."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def count_convolution_layouts(model: nn.Module) -> Iterator[dict[str, float]]:
    """Count the calls of 2-d convolutions while entered, and those with a channels-last output.

    Nothing is counted for a model without them, or compiled code, in which no module is called. A subclass's output
    that is not a tensor of images (4-d) is not counted.
    """
    counts: dict[str, float] = {}

    def see(_module: nn.Module, _args: object, output: object) -> None:
        if not isinstance(output, torch.Tensor) or output.dim() != 4:
            return
        last = output.is_contiguous(memory_format=torch.channels_last)
        counts["convolutions"] = counts.get("convolutions", 0.0) + 1
        counts["channels_last_convolutions"] = counts.get("channels_last_convolutions", 0.0) + last

    handles = [module.register_forward_hook(see) for module in model.modules() if isinstance(module, nn.Conv2d)]
    try:
        yield counts
    finally:
        for handle in handles:
            handle.remove()
