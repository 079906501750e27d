"""Forward passes by which a technique finds out what it has to do with, before anything is trained."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from perfkit.techniques.state import TrainState
from perfkit.workloads.workload import Batch, batches_of


@contextmanager
def trial_batch(state: TrainState) -> Iterator[Batch]:
    """A batch as those of a run: on the device, what is floating in the dtype of the parameters.

    What runs with it leaves no trace: torch's random numbers and the model's buffers are afterwards as they were.
    """
    with trial_batches(state) as batches:
        yield next(batches)


@contextmanager
def trial_batches(state: TrainState) -> Iterator[Iterator[Batch]]:
    """The same, without end; on all ranks the same."""
    drawn = batches_of(state.workload, torch.Generator().manual_seed(0))
    dtype = next((p.dtype for p in state.model.parameters() if p.is_floating_point()), torch.float32)
    kept = {name: buffer.clone() for name, buffer in state.model.named_buffers()}
    with torch.random.fork_rng(devices=[state.device] if state.device.type == "cuda" else []):
        try:
            yield (_placed(batch, state.device, dtype) for batch in drawn)
        finally:
            with torch.no_grad():
                for name, before in kept.items():
                    state.model.get_buffer(name).copy_(before)


def _placed(batch: Batch, device: torch.device, dtype: torch.dtype) -> Batch:
    cast = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in batch.items()}
    return {name: tensor.to(device) for name, tensor in cast.items()}
