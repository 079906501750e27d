"""Measures what a step of a workload's own saves for its backward passes, and what gradients it holds when it
updates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.facts.saved_tensors import count_graph_replays
from perfkit.instruments.training.tensors import list_known_blocks, sum_category_bytes
from perfkit.techniques.base.own_step import run_step
from perfkit.techniques.base.state import Closure, TrainState
from perfkit.workloads.workload import Batch

_MARK = "forward of a step"


def collect_own_step_facts(state: TrainState, batch: Batch) -> dict[str, float]:
    """Collect gradient bytes and saved bytes from two ordinary steps; saved bytes are missing if CUDA graphs were
    replayed."""
    facts = {"gradient_bytes": float(measure_gradient_bytes(state, lambda: run_step(state, batch)))}
    saved = measure_step_saved_bytes(state, lambda: run_step(state, batch))
    return facts if saved is None else {"saved_tensor_bytes": float(saved), **facts}


def measure_step_saved_bytes(state: TrainState, step: Callable[[], object]) -> int | None:
    """Bytes that the forward passes of a step leave allocated when the next backward pass begins, over all of them.

    What the step itself holds by then counts, too; gradients do not, which are cleared after each update for that. None
    where CUDA graphs were replayed.
    """
    device, accelerator = state.device, get_accelerator(state.device)
    counts = accelerator.has_memory_statistics
    backward, update = state.backward, state.optimizer_step
    changes: list[int] = []  # of each forward pass; in the profiler's events where the allocator does not count
    begun = counted = 0

    @contextmanager
    def watched() -> Iterator[None]:
        nonlocal begun
        begun += 1
        if counts:
            before = accelerator.runtime.memory_allocated(device)
            yield
            changes.append(accelerator.runtime.memory_allocated(device) - before)
        else:
            with record_function(f"{_MARK} {begun}"):
                yield

    def counting(loss: torch.Tensor) -> None:
        nonlocal counted
        counted = begun
        backward(loss)

    def clearing(optimizer: torch.optim.Optimizer, closure: Closure | None) -> None:
        update(optimizer, closure)
        optimizer.zero_grad(set_to_none=True)

    profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    state.forward_contexts.insert(0, watched)  # left last, when autocast has given up its copies of parameters
    state.backward, state.optimizer_step = counting, clearing
    state.model.zero_grad(set_to_none=True)
    try:
        with count_graph_replays() as replays, nullcontext() if counts else profiler:
            step()
    finally:
        state.forward_contexts.remove(watched)
        state.backward, state.optimizer_step = backward, update
    if replays:
        return None
    if counts:
        return sum(changes[:counted])
    wanted = {f"{_MARK} {number}" for number in range(1, counted + 1)}
    saved: int = sum(event.cpu_memory_usage for event in profiler.events() or [] if event.name in wanted)
    return saved


def measure_gradient_bytes(state: TrainState, step: Callable[[], object]) -> int:
    """Measure the maximum bytes of gradients when an optimizer is about to update."""
    update, most = state.optimizer_step, 0

    def watched(optimizer: torch.optim.Optimizer, closure: Closure | None) -> object:
        nonlocal most
        most = max(most, sum_category_bytes(list_known_blocks(state), "gradient"))
        return update(optimizer, closure)

    state.optimizer_step = watched
    try:
        step()
    finally:
        state.optimizer_step = update
    return most
