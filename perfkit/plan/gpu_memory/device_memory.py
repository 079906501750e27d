"""Computes a rehearsed step's memory on a GPU: requests through the caching allocator, and non-tensor memory."""

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.plan import Interval, NonTensorMemory, PlannedPeak
from perfkit.core.allocations import CUDA_UNIT_BYTES, TEMPORARY, WORKSPACE
from perfkit.plan.gpu_memory.caching_allocator import CachingAllocator, OutOfMemoryError
from perfkit.plan.gpu_memory.expandable_segments import ExpandableSegments
from perfkit.plan.gpu_memory.non_tensor_memory import get_handle_bytes, list_library_memory, list_non_tensor_memory
from perfkit.plan.rehearsal.fake_memory import SCRATCH
from perfkit.plan.rehearsal.rehearsal import Change, RehearsedStep
from perfkit.plan.rehearsal.step_ops import StepCollective
from perfkit.plan.target.target import Target

ROUNDING = "allocator rounding"

# What a rehearsal misses: of 29 peaks on an H200, 28 were within it on either side (`benchmarks.plan_h200`).
REHEARSAL_ERROR = 0.01

_NO_STREAMS: tuple[Mapping[int, int], Mapping[int, int]] = (MappingProxyType({}), MappingProxyType({}))


class DeviceMemory(NamedTuple):
    """The allocator's peak, the libraries' part of it, and memory outside it."""

    peak: PlannedPeak
    within: tuple[NonTensorMemory, ...]
    beyond: tuple[NonTensorMemory, ...]


class AllocatorReplay(NamedTuple):
    """Peak bytes in use during the step, and peak reserved bytes after the setup."""

    allocated: int
    reserved: int


def compute_device_memory(
    rehearsed: RehearsedStep, held: MemoryAccount, target: Target, world_size: int
) -> DeviceMemory:
    """The memory of a rank on a GPU.

    The peak includes libraries' memory; its lower bound excludes their scratch memory and one workspace. Both bounds
    include the error of rehearsed peaks. Reserved memory assumes an allocator that returns free segments before
    failing, like torch's. Its upper bound is what is free if no request fits a free block or a segment exactly: a
    library's small request in the wrong place is enough to prevent that.
    """
    handle, groups = get_handle_bytes(target), _count_groups(rehearsed, world_size)
    most, loose = (
        _replay_within_limit(rehearsed, (int(handle.high),) * 2, target, groups, padding)
        for padding in (0, CUDA_UNIT_BYTES)
    )
    low = replay_requests(
        rehearsed.setup,
        rehearsed.before,
        rehearsed.step,
        (int(handle.low),),
        expandable=target.expandable_segments,
        graphed=rehearsed.graphed,
        streams=rehearsed.streams,
        scratch=False,
    )
    within = list_library_memory(target, rehearsed.scratch)
    workspaces = int(within[0].bytes.high)
    categories = {share.category: share.bytes for share in held.categories}
    categories[WORKSPACE] = categories.get(WORKSPACE, 0) + workspaces
    categories[ROUNDING] = most.allocated - held.peak_bytes - workspaces
    # Inductor fuses for a CPU here: a GPU's code may keep as much less between its kernels, or more.
    fused = categories.get(TEMPORARY, 0) if rehearsed.compiled else 0
    peak = PlannedPeak(
        value=most.allocated,
        low=int(low.allocated * (1 - REHEARSAL_ERROR)) - fused,
        high=int(most.allocated * (1 + REHEARSAL_ERROR)) + fused,
        phase=held.peak_phase,
        categories=categories,
    )
    free = most.reserved - most.allocated
    cached = Interval(value=free, low=0, high=max(free, loose.reserved - loose.allocated))
    return DeviceMemory(peak, within, list_non_tensor_memory(target, groups, cached))


def _count_groups(rehearsed: RehearsedStep, world_size: int) -> tuple[int, ...]:
    """Ranks of the process groups in which the rank exchanges anything, before its step or in it, and of that of all
    ranks, in which the harness waits for all of them. A group of one has nobody to connect to."""
    issued = {each.group: each.ranks for each in rehearsed.issued if isinstance(each, StepCollective)}
    groups = sorted(ranks for ranks in {**rehearsed.groups, **issued}.values() if ranks > 1)
    if world_size == 1:
        return ()
    return (*groups, *([] if world_size in groups else [world_size]))


def _replay_within_limit(
    rehearsed: RehearsedStep, workspaces: tuple[int, ...], target: Target, groups: tuple[int, ...], padding: int
) -> AllocatorReplay:
    """Replay within the allocator's share of the limit, or without a limit if that is too small."""
    assert target.limit_bytes is not None
    others = sum(row.bytes.high for row in list_non_tensor_memory(target, groups, Interval(value=0, low=0, high=0)))
    replay = partial(
        replay_requests,
        rehearsed.setup,
        rehearsed.before,
        rehearsed.step,
        workspaces,
        expandable=target.expandable_segments,
        graphed=rehearsed.graphed,
        streams=rehearsed.streams,
        padding=padding,
    )
    try:
        return replay(capacity=int(target.limit_bytes - others))
    except OutOfMemoryError:
        return replay()


def replay_requests(
    setup: Iterable[Change],
    before: Iterable[Change],
    step: Iterable[Change],
    workspaces: Iterable[int] = (),
    capacity: int = 1 << 62,
    *,
    expandable: bool = False,
    graphed: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset()),
    streams: tuple[Mapping[int, int], Mapping[int, int]] = _NO_STREAMS,
    scratch: bool = True,
    padding: int = 0,
) -> AllocatorReplay:
    """Replay requests through the caching allocator: permanent `workspaces`, `setup`, `before` the step, the step's.

    Unused segments are returned after `setup`, as a bench does, and the capacity holds from there on: what techniques
    try on the unmodified model is not the variant's memory.

    `expandable`: use expandable segments. `scratch`: with libraries' scratch memory. `padding`: bytes that each request
    of the program takes more. `streams`, of other than the default one, by place in `before` and `step`: what is free
    in one serves no other. `graphed` are the places of allocations in the pool of CUDA graphs. It counts whole: replays
    use it unseen by the allocator, which keeps its segments and serves nothing else from them.

    Raises:
        OutOfMemoryError: the requests do not fit into the capacity.
    """
    make_allocator = ExpandableSegments if expandable else CachingAllocator
    allocator, graphs = make_allocator(), make_allocator()
    workspaces = tuple(workspaces)
    for size in workspaces:
        allocator.malloc(size)
    if any(graphed):  # a recording has cuBLAS workspaces of its own, in the pool (cudagraph_trees.py)
        for size in workspaces:
            graphs.malloc(size)
    blocks: dict[int, tuple[CachingAllocator, int]] = {}

    def serve(
        changes: Iterable[Change], pooled: frozenset[int] = frozenset(), stream: Mapping[int, int] = _NO_STREAMS[0]
    ) -> None:
        for place, (address, size) in enumerate(changes):
            if address == SCRATCH and not scratch:
                continue
            if size > 0:
                owner = graphs if place in pooled else allocator
                blocks[address] = owner, owner.malloc(size + padding, (0, stream.get(place, 0)))
            else:
                owner, block = blocks.pop(address)
                owner.free(block)

    serve(setup)
    allocator.restart(capacity)
    serve(before, graphed[0], streams[0])
    allocator.reset_peak()
    serve(step, graphed[1], streams[1])
    return AllocatorReplay(allocator.peak + graphs.reserved, allocator.reserved_peak + graphs.reserved)
