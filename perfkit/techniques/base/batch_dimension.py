"""Tells whether the first dimension of a batch is time and not samples, where layers of torch say so."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.trial import discard_saved_tensors, draw_trial_batch
from perfkit.workloads.workload import count_samples

_BATCHED_DIMENSIONS = 3  # of a sequence's input: time, samples, features


def has_time_first(state: TrainState) -> bool:
    """True if a layer whose inputs have time first (`batch_first=False`) gets the batch's first dimension as its time.

    One forward pass of the model, where it has such layers; False where time and samples are as many.
    """
    layers = [
        module
        for module in state.model.modules()
        if isinstance(module, nn.RNNBase | nn.MultiheadAttention) and not module.batch_first
    ]
    if not layers:
        return False
    with draw_trial_batch(state) as batch, discard_saved_tensors(), _watch_inputs(layers) as shapes:
        state.loss(batch)
    first = count_samples(batch)
    return any(shape[0] == first and shape[1] != first for shape in shapes if len(shape) == _BATCHED_DIMENSIONS)


@contextmanager
def _watch_inputs(layers: Sequence[nn.Module]) -> Iterator[list[torch.Size]]:
    """Collects the shapes of the layers' first inputs."""
    shapes: list[torch.Size] = []

    def watch(_module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], torch.Tensor):
            shapes.append(args[0].shape)

    handles = [layer.register_forward_pre_hook(watch) for layer in layers]
    try:
        yield shapes
    finally:
        for handle in handles:
            handle.remove()
