"""Measures the bytes that a forward pass keeps for backward."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import nn

from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.instruments.training.module_hooks import watch_forward_passes
from perfkit.instruments.training.tensors import list_plain_parts

Forward = Callable[[], torch.Tensor]


REPLAYED = "CUDA graphs keep saved tensors in their own pool, and replays allocate nothing"


def measure_saved_bytes(forward: Forward, device: torch.device) -> int | None:
    """Measure the bytes that `forward` leaves allocated on `device` while its loss is alive: those held for backward.

    The allocator counts them (its counter on a GPU, torch.profiler's allocation events on a CPU), so that memory
    outside autograd's hooks counts too. Existing memory, such as the batch and the parameters, does not. None if CUDA
    graphs were replayed, for the reason `REPLAYED`. On a CPU, do not call it before timing: a recording leaves a heap
    in which later steps run slower.
    """
    accelerator = get_accelerator(device)
    if accelerator.has_memory_statistics:
        runtime = accelerator.runtime
        runtime.synchronize(device)
        before: int = runtime.memory_allocated(device)
        with count_graph_replays() as replays:
            loss = forward()
        runtime.synchronize(device)
        after: int = runtime.memory_allocated(device)
        if replays:
            # torch.compile takes a forward pass that follows another without a backward pass for a part of the same
            # step, and records it again.
            loss.backward()
            return None
        del loss  # not before the second reading: the graph and its memory depend on it
        return after - before
    with AllocationProfiler(ops=False) as profiler:
        loss = forward()
    del loss
    # Not the sum of all events: of a block from before the profiler may report a free, by the size of another that an
    # earlier recording saw at its address.
    live: dict[int, int] = {}
    for event in profiler.recorded.allocations:
        if event.size > 0:
            live[event.address] = event.size
        else:
            live.pop(event.address, None)
    return sum(live.values())


@contextmanager
def count_graph_replays() -> Iterator[list[torch.cuda.CUDAGraph]]:
    """Count the CUDA graphs replayed while entered, torch.compile's and others."""
    replayed: list[torch.cuda.CUDAGraph] = []
    replay = torch.cuda.CUDAGraph.replay

    def counting(self: torch.cuda.CUDAGraph) -> None:
        replayed.append(self)
        replay(self)

    torch.cuda.CUDAGraph.replay = counting  # type: ignore[method-assign]
    try:
        yield replayed
    finally:
        torch.cuda.CUDAGraph.replay = replay  # type: ignore[method-assign]


def measure_plain_saved_bytes(
    model: nn.Module, forward: Forward, device: torch.device, blocks: Sequence[str] = ()
) -> dict[str, int]:
    """The same for a model that no technique has changed, without any instrument but autograd's hooks.

    Counts the distinct storages that `torch.autograd.graph.saved_tensors_hooks` sees, without parameters and buffers,
    by the first of `blocks` (names of modules) that saves them; those of the rest of the model are under "".
    """
    own = {
        part.untyped_storage().data_ptr()
        for tensor in (*model.parameters(), *model.buffers())
        for part in list_plain_parts(tensor)
    }
    sizes: dict[int, int] = {}
    saved_in: dict[int, str] = {}
    inside = [""]
    kept: list[torch.Tensor] = []  # keeps addresses from being reused while they are counted

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved = tensor.detach()
        for plain in list_plain_parts(saved):
            address = plain.untyped_storage().data_ptr()
            if plain.device.type == device.type and address not in own:
                sizes[address] = plain.untyped_storage().nbytes()
                saved_in.setdefault(address, inside[-1])
                kept.append(plain)
        return saved

    with ExitStack() as stack:
        for name in blocks:
            stack.enter_context(
                watch_forward_passes((model.get_submodule(name),), partial(inside.append, name), inside.pop)
            )
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor))
        forward()
    bytes_by_block = dict.fromkeys(("", *blocks), 0)
    for address, size in sizes.items():
        bytes_by_block[saved_in[address]] += size
    return bytes_by_block
