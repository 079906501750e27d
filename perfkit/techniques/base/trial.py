"""Forward passes by which a technique inspects the model before training."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.autograd.graph import saved_tensors_hooks

from perfkit.devices.accelerator import get_accelerator
from perfkit.techniques.base.state import TrainState
from perfkit.workloads.model_loss import call_loss
from perfkit.workloads.workload import Batch, count_samples, draw_batches, join_batches


@contextmanager
def draw_trial_batch(state: TrainState) -> Iterator[Batch]:
    """Draw a batch like those of a run: on the device, with floating-point tensors in the parameters' dtype.

    Running it has no side effects: torch's random numbers and the model's buffers are restored.
    """
    with draw_trial_batches(state) as batches:
        yield next(batches)


@contextmanager
def draw_trial_samples(state: TrainState, count: int) -> Iterator[Batch]:
    """Draw a batch of `count` samples; a batch's number of samples must be known."""
    with draw_trial_batches(state) as batches:
        drawn = [next(batches)]
        while sum(count_samples(batch) or count for batch in drawn) < count:
            drawn.append(next(batches))
        yield {name: tensor[:count] for name, tensor in join_batches(drawn).items()}


@contextmanager
def draw_trial_batches(state: TrainState) -> Iterator[Iterator[Batch]]:
    """The same, without end; on all ranks the same."""
    drawn = draw_batches(state.workload, torch.Generator().manual_seed(0))
    dtype = next((p.dtype for p in state.model.parameters() if p.is_floating_point()), torch.float32)
    kept = {name: buffer.clone() for name, buffer in state.model.named_buffers()}
    accelerator = get_accelerator(state.device)
    devices = [state.device] if accelerator.has_generator else []
    with torch.random.fork_rng(devices, device_type=accelerator.type):
        try:
            yield (_move_batch(batch, state.device, dtype) for batch in drawn)
        finally:
            with torch.no_grad():
                for name, before in kept.items():
                    state.model.get_buffer(name).copy_(before)


def run_trial_forward(state: TrainState) -> None:
    """A forward pass of one rank's batch, of which nothing is kept for backward."""
    with draw_trial_batch(state) as batch, discard_saved_tensors(), state.enter_forward_contexts():
        call_loss(state.workload, state.model, batch)


def discard_saved_tensors() -> saved_tensors_hooks:
    """Within it forward passes keep nothing for backward, and take as much less memory."""
    return saved_tensors_hooks(lambda _saved: None, _refuse_unpack)


def _refuse_unpack(_packed: None) -> torch.Tensor:
    raise AssertionError("no backward pass is run")


def _move_batch(batch: Batch, device: torch.device, dtype: torch.dtype) -> Batch:
    cast = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in batch.items()}
    return {name: tensor.to(device) for name, tensor in cast.items()}
