"""Forward passes by which a technique inspects the model before training."""

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks

from perfkit.devices.accelerator import get_accelerator
from perfkit.techniques.base.state import TrainState
from perfkit.workloads.model_loss import call_loss
from perfkit.workloads.workload import Batch, count_samples, draw_batches, join_batches, split_batch


@contextmanager
def draw_trial_batch(state: TrainState) -> Iterator[Batch]:
    """Draw a batch like those of a run: on the device, with floating-point tensors in the parameters' dtype.

    What the model keeps of running it is restored: its buffers, its modules' numbers and words (counters), and the
    states of the random generators of torch, Python and NumPy.
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
    accelerator = get_accelerator(state.device)
    devices = [state.device] if accelerator.has_generator else []
    with torch.random.fork_rng(devices, device_type=accelerator.type), _fork_other_generators(), _keep_modules(state):
        yield (_move_batch(batch, state.device, dtype) for batch in drawn)


@contextmanager
def _fork_other_generators() -> Iterator[None]:
    """Restores the states of Python's and NumPy's generators."""
    python, numbers = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)


@contextmanager
def _keep_modules(state: TrainState) -> Iterator[None]:
    """Restores buffers, also those that were replaced, and attributes of modules that are numbers or words."""
    modules = [*state.model.modules()]
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    attributes = [
        (vars(module), {name: value for name, value in vars(module).items() if isinstance(value, int | float | str)})
        for module in modules
    ]
    try:
        yield
    finally:
        for values, kept in attributes:
            values.update(kept)
        with torch.no_grad():
            for module, name, buffer, before in buffers:
                module._buffers[name] = buffer
                buffer.copy_(before)


@contextmanager
def draw_trial_microbatch(state: TrainState) -> Iterator[Batch]:
    """Draw a batch of the size that one forward pass of the variant takes."""
    with draw_trial_batch(state) as batch:
        yield split_batch(batch, state.microbatches)[0]


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


_STEP_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast_to_step(state: TrainState) -> AbstractContextManager[object]:
    """Autocast a trial to the dtype of the step where sharding, which casts parameters, is still to be applied."""
    if state.step_dtype in ("", state.compute_dtype) or state.step_dtype not in _STEP_DTYPES:
        return nullcontext()
    return torch.autocast(state.device.type, dtype=_STEP_DTYPES[state.step_dtype])
