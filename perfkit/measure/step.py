"""One optimizer step of a training state, marked by phases: the loop every pass runs."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from perfkit.instruments.marks import phase, step_mark
from perfkit.techniques.own_step import run_step
from perfkit.techniques.state import TrainState
from perfkit.workloads.workload import Batch, to_device


def train_step(state: TrainState, batches: list[Batch], index: int) -> torch.Tensor:
    """Run forward and backward for each microbatch and update once, or the step of an engine or of the workload's own.

    `batches` are on the host; copying one to the device is the `data` phase. Returns the mean loss over the
    microbatches, or the sum of an own step's losses, detached and left on the device so that reading it does not
    synchronise.
    """
    assert state.optimizers, "the optimizers are built before the first step"
    total: torch.Tensor | None = None
    with step_mark(index):
        if state.engine is not None:
            return state.engine(batches, phase)
        if state.workload.step is not None:
            (host_batch,) = batches
            with phase("data"):
                batch = to_device(host_batch, state.device)
            return run_step(state, batch, phase)
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
            state.update()
            state.zero_grad()
    assert total is not None, "a step has at least one microbatch"
    return total


@contextmanager
def counted_backward_passes(state: TrainState) -> Iterator[list[None]]:
    """While it is entered, the list gets an entry for every backward pass of a loss."""
    passes: list[None] = []
    backward = state.backward

    def counted(loss: torch.Tensor) -> None:
        passes.append(None)
        backward(loss)

    state.backward = counted
    try:
        yield passes
    finally:
        state.backward = backward
