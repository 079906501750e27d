"""Measures a step's memory from the allocator's events."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.memory.allocation_lifetimes import Lifetimes, build_lifetimes
from perfkit.analysis.memory.totals import compute_totals
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.allocations import GRADIENT, NONE, Allocations, InitialBlock, round_cuda_size
from perfkit.core.record.trace_marks import PHASES
from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.clock import Step
from perfkit.instruments.memory.memory_recording import record_memory
from perfkit.instruments.recording import drive_recording
from perfkit.instruments.training.tensors import list_trained_blocks
from perfkit.instruments.training.trained_models import TrainedModels

_FORWARD, _BACKWARD = PHASES.index("forward"), PHASES.index("backward")

# `record_memory` needs one step before the recorded ones, and two after.
STEPS = 4


@dataclass(frozen=True)
class StepMemory:
    """Bytes of one step.

    Attributes:
        peak: peak of parameters, gradients, optimizer state, buffers and the step's allocations, without other tests'
            tensors and a batch made before.
        above_start: the peak minus the bytes at the step's start.
        saved: bytes kept for the backward pass, by origin (`by aten::gelu in h.0`), for the forward pass that keeps
            most; None without a backward pass.
        account: the account of the peak, None if nothing was allocated. On a GPU, from a separate step.
    """

    peak: int
    above_start: int
    saved: dict[str, int] | None
    account: MemoryAccount | None


def measure_step_memory(step: Step, first: int, trained: TrainedModels) -> StepMemory:
    """Run `STEPS` steps from `step(first)`, and one more on a GPU."""
    own: set[int] = set()

    def blocks() -> tuple[InitialBlock, ...]:
        tensors = list_trained_blocks(trained)
        own.update(block.address for block in tensors)
        return tensors

    everything = drive_recording(record_memory(1, trained, blocks=blocks), step, first)
    mine = [block for block in everything.known if block.address in own or block.category == GRADIENT]
    events = replace(everything, known=tuple(mine), unexplained_bytes=0)
    lives = build_lifetimes(events)
    totals = compute_totals(lives, len(events))
    inside = np.flatnonzero(events.step != NONE)
    start = int(totals[inside[0] if len(inside) else -1])
    peak = int(totals[inside[0] :].max()) if len(inside) else start
    if get_accelerator(trained.device).has_memory_statistics:
        peak, start = _measure_allocator_peak(lambda: step(first + STEPS), trained)
    return StepMemory(peak, peak - start, _sum_saved(events, lives), build_memory_account(events))


def _measure_allocator_peak(step: Callable[[], object], trained: TrainedModels) -> tuple[int, int]:
    """A step's peak and the bytes allocated before it, from the allocator's statistics, without instruments."""
    device, runtime = trained.device, get_accelerator(trained.device).runtime
    state = sum(round_cuda_size(block.size_bytes) for block in list_trained_blocks(trained))
    runtime.synchronize(device)
    runtime.reset_peak_memory_stats(device)
    before = runtime.memory_allocated(device)
    step()
    runtime.synchronize(device)
    return int(state + runtime.max_memory_allocated(device) - before), state


def _sum_saved(events: Allocations, lives: Lifetimes) -> dict[str, int] | None:
    """Bytes allocated in a forward pass and alive at its end, before a backward pass; the maximum of several."""
    by_pass: list[dict[str, int]] = []
    for visit in np.unique(events.visit[events.phase == _FORWARD]).tolist():
        following = events.phase[events.visit == visit + 1]
        if not len(following) or following[0] != _BACKWARD:
            continue
        forward = np.flatnonzero((events.visit == visit) & (events.phase == _FORWARD))
        first, last = int(forward[0]), int(forward[-1])
        saved: dict[str, int] = {}
        for life in np.flatnonzero(lives.alive_after(last) & (lives.born >= first)).tolist():
            made_by = format_origin(
                *(events.get_text(column, int(lives.born[life])) for column in (events.op, events.module))
            )
            saved[made_by] = saved.get(made_by, 0) + int(lives.size[life])
        by_pass.append(saved)
    return max(by_pass, key=lambda saved: sum(saved.values()), default=None)


def format_origin(op: str, module: str) -> str:
    """`by aten::gelu in h.0`, as far as known."""
    return " ".join([*([f"by {op}"] if op else []), *([f"in {module}"] if module else [])])
