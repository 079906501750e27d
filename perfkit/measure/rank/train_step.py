"""One optimizer step of a training state, marked by phases: the loop every pass runs."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from perfkit.instruments.range_marks import mark_phase, mark_step
from perfkit.measure.rank.loaded_data import Microbatches
from perfkit.techniques.base.own_step import run_step
from perfkit.techniques.base.state import TrainState
from perfkit.workloads.workload import Batch, move_to_device


def train_step(state: TrainState, batches: list[Batch] | Microbatches, index: int) -> torch.Tensor:
    """Run forward and backward for each microbatch and update once, or the step of an engine or of the workload's own.

    `batches` are on the host; waiting for one and copying it to the device is the `data` phase. Returns the mean loss
    over the microbatches, or the sum of an own step's losses, detached and left on the device so that reading it does
    not synchronize.
    """
    assert state.optimizers, "the optimizers are built before the first step"
    total: torch.Tensor | None = None
    count, coming = len(batches), iter(batches)
    with mark_step(index):
        if state.engine is not None:
            with mark_phase("data"):
                fetched = list(coming)
            return state.engine(fetched, mark_phase)
        if state.workload.step is not None:
            with mark_phase("data"):
                batch = move_to_device(next(coming), state.device, state.non_blocking)
            return run_step(state, batch, mark_phase)
        for number in range(count):
            last = number == count - 1
            quiet = state.no_sync if state.no_sync is not None and not last else nullcontext
            with quiet():
                with mark_phase("data"):
                    batch = move_to_device(next(coming), state.device, state.non_blocking)
                with mark_phase("forward"):
                    loss = state.loss(batch) / count
                with mark_phase("backward"):
                    state.backward(loss)
            total = loss.detach() if total is None else total + loss.detach()
        with mark_phase("optimizer"):
            state.update()
            state.zero_grad()
    assert total is not None, "a step has at least one microbatch"
    return total


@contextmanager
def count_backward_passes(state: TrainState) -> Iterator[list[None]]:
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
