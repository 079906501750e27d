"""Measures what a model's repeated blocks save for the backward pass, and what of them runs again in it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from perfkit.cost.live_flops import FlopCounter
from perfkit.cost.torch_dispatch import disable_modes
from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.autograd_state import is_in_backward
from perfkit.instruments.facts.saved_tensors import Forward
from perfkit.instruments.training.module_hooks import watch_forward_passes
from perfkit.techniques.base.own_step import run_step
from perfkit.techniques.base.state import TrainState
from perfkit.workloads.workload import Batch

_GEMMS = ("aten::mm", "aten::addmm")
_MARK = "forward of a block"


def collect_block_facts(state: TrainState, batch: Batch, reference_saved: Mapping[str, int]) -> dict[str, float]:
    """Collect facts of the checkpointed blocks, or of all blocks if none is; empty for a model without blocks.

    Runs two forward passes and one backward pass, and leaves its gradients; for a workload with its own step, two
    steps. `reference_saved` has the bytes that each block of the unmodified model saves.
    """
    names = state.checkpointed or state.block_names
    blocks = [state.model.get_submodule(name) for name in names]

    def forward() -> torch.Tensor:
        return state.loss(batch)

    def own_step() -> torch.Tensor:
        return run_step(state, batch)

    if state.workload.step is None:
        saved = measure_block_saved_bytes(forward, blocks, state.device)
        again = measure_recomputation(lambda: state.backward(forward()), blocks)
    else:
        saved = measure_block_saved_bytes(own_step, blocks, state.device)
        again = measure_recomputation(own_step, blocks)
    if not blocks:
        return {}
    facts = {
        "block_saved_tensor_bytes": float(saved),
        "recomputed_blocks": float(len(again.blocks)),
        "block_flops": again.forward_flops,
        "recomputed_flops": again.again_flops,
        "block_ops": float(again.forward_ops),
        "recomputed_ops": float(again.again_ops),
        "buffers_changed_again": float(again.changed_buffers),
        "block_gemms": float(again.forward_gemms),
        "recomputed_gemms": float(again.again_gemms),
    }
    if reference_saved:
        facts["reference_block_saved_tensor_bytes"] = float(sum(reference_saved[name] for name in names))
    return facts


def measure_block_saved_bytes(forward: Forward, blocks: Iterable[nn.Module], device: torch.device) -> int:
    """Measure the bytes that the forward passes of `blocks` leave allocated on `device`, each from its call to its
    return.

    The allocator counts them. Memory gathered for a block and freed after it does not count, nor does memory saved by
    other parts of the model. Blocks must not be compiled or nested.
    """
    with _disable_cast_cache():
        if (accelerator := get_accelerator(device)).has_memory_statistics:
            moments: list[int] = []

            def read() -> None:
                moments.append(accelerator.runtime.memory_allocated(device))

            with watch_forward_passes(blocks, read, read):
                loss = forward()
            del loss  # not before: what one block saves must stay while the next are called
            return sum(moments[1::2]) - sum(moments[::2])
        ranges: list[record_function] = []

        def enter() -> None:
            ranges.append(record_function(_MARK))
            ranges[-1].__enter__()

        def leave() -> None:
            ranges.pop().__exit__(None, None, None)

        with (
            profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler,
            watch_forward_passes(blocks, enter, leave),
        ):
            loss = forward()
        del loss
        events = profiler.events() or []
        return sum(event.cpu_memory_usage for event in events if event.name == _MARK)


class _Counted(NamedTuple):
    """What has run so far: matrix FLOPs, ops and GEMMs."""

    flops: float
    ops: int
    gemms: int


@dataclass
class Recomputation:
    """The forward work of some blocks, in forward and again within backward.

    `blocks` are the places of those that a backward pass called, or a module of which; `forward_flops` and
    `again_flops` are matrix FLOPs within the blocks' forward passes, `forward_ops` and `again_ops` the ops called,
    `forward_gemms` and `again_gemms` the GEMMs among them. `changed_buffers` are those that are not as the forward pass
    left them.
    """

    blocks: set[int] = field(default_factory=set)
    forward_flops: float = 0.0
    again_flops: float = 0.0
    forward_ops: int = 0
    again_ops: int = 0
    changed_buffers: int = 0
    forward_gemms: int = 0
    again_gemms: int = 0


def measure_recomputation(run: Callable[[], object], blocks: Iterable[nn.Module]) -> Recomputation:
    """Find the blocks that rerun their forward in a backward pass of `run`. Blocks must not be compiled."""
    recomputation = Recomputation()
    blocks = [*blocks]
    counter = FlopCounter()
    entered: list[_Counted] = []  # at the entry of each module that has not been left
    left: dict[int, dict[str, torch.Tensor]] = {}  # of each block, its buffers after its last forward pass

    def count() -> _Counted:
        return _Counted(counter.build_count().matrix, counter.count_ops(), counter.count_calls(_GEMMS))

    def enter(place: int) -> None:
        if is_in_backward():
            recomputation.blocks.add(place)
        entered.append(count())

    def leave(place: int) -> None:
        before = entered.pop()
        if entered:
            return  # a module within another, which counts it
        now = count()
        flops, ops, gemms = now.flops - before.flops, now.ops - before.ops, now.gemms - before.gemms
        if is_in_backward():
            recomputation.again_flops += flops
            recomputation.again_ops += ops
            recomputation.again_gemms += gemms
        else:
            recomputation.forward_flops += flops
            recomputation.forward_ops += ops
            recomputation.forward_gemms += gemms
            with disable_modes():  # no op of the block
                left[place] = {name: buffer.clone() for name, buffer in blocks[place].named_buffers()}

    with ExitStack() as stack:
        for place, block in enumerate(blocks):
            # All modules of the block: a wrapper is not called again, but the wrapped module is.
            stack.enter_context(watch_forward_passes(block.modules(), partial(enter, place), partial(leave, place)))
        stack.enter_context(counter)
        run()
    for place, buffers in left.items():
        after = dict(blocks[place].named_buffers())
        recomputation.changed_buffers += sum(not torch.equal(after[name], value) for name, value in buffers.items())
    return recomputation


@contextmanager
def _disable_cast_cache() -> Iterator[None]:
    """Autocast keeps its copies of parameters until its context ends, which no block saves."""
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)
