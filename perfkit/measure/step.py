"""One optimizer step of a training state, marked by phases: the loop every pass runs."""

from contextlib import nullcontext

import torch

from perfkit.instruments.marks import phase, step_mark
from perfkit.techniques.state import TrainState
from perfkit.workloads.workload import Batch


def train_step(state: TrainState, batches: list[Batch], index: int) -> torch.Tensor:
    """Run forward and backward for each microbatch and update once.

    `batches` are on the host; copying one to the device is the `data` phase. Returns the mean loss over the
    microbatches, detached and left on the device so that reading it does not synchronise.
    """
    optimizer = state.optimizer
    assert optimizer is not None, "the optimizer is built before the first step"
    total: torch.Tensor | None = None
    with step_mark(index):
        for number, host_batch in enumerate(batches):
            last = number == len(batches) - 1
            quiet = state.no_sync if state.no_sync is not None and not last else nullcontext
            with quiet():
                with phase("data"):
                    batch = to_device(host_batch, state.device)
                with phase("forward"):
                    loss = state.loss(batch) / len(batches)
                with phase("backward"):
                    state.backward(loss)
            total = loss.detach() if total is None else total + loss.detach()
        with phase("optimizer"):
            state.optimizer_step(optimizer)
            optimizer.zero_grad(set_to_none=True)
    assert total is not None, "a step has at least one microbatch"
    return total


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch in memory of its own on `device`; from pinned host memory the copy is asynchronous."""
    if device.type == "cpu":
        return {name: tensor.clone() for name, tensor in batch.items()}
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
