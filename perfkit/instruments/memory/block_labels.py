"""Labels the blocks of a step that was recorded in every detail."""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch

from perfkit.core.allocations import (
    AUTOCAST,
    GRADIENT,
    OFFLOAD,
    PARAMETER,
    RECOMPUTED,
    WORKSPACE,
    InitialBlock,
    can_cuda_serve,
    round_cuda_size,
)
from perfkit.core.record.trace_marks import PHASES
from perfkit.cost.workspaces import TAKES_WORKSPACE
from perfkit.devices.accelerator import is_cpu
from perfkit.instruments.memory.allocation_places import FSDP, AllocationPlace
from perfkit.instruments.memory.profiler_events import ForwardCall, ProfiledAllocation, RecordedEvents, TensorUse
from perfkit.instruments.training.tensors import shorten_dtype

# FSDP2's unsharded parameters, which casts read like plain parameters.
UNSHARDING = FSDP + "all_gather_copy_out"

_BACKWARD = PHASES.index("backward")
_CASTS = frozenset({"aten::_to_copy", "aten::to"})
# Autocast computes in no other dtypes: a copy of a weight in fp64, for a determinant, is the model's own.
_AUTOCAST_DTYPES = frozenset({torch.bfloat16, torch.float16, torch.float32})
# Lines of perfkit's own offloading, except `paged_optimizer.py`, which calls an optimizer that allocates memory.
_PAGERS = ("activations/paging.py", "activations/paged_tensors.py", "activations/paged_activations.py")


class BlockLabel(NamedTuple):
    """Label of a block; texts are "" where unknown.

    `keeper` is the op that freed it. `bytes` is the size of the tensor of `shape` and `dtype`, which may be below the
    block's; 0 if unknown.
    """

    op: str = ""
    module: str = ""
    line: str = ""
    shape: str = ""
    dtype: str = ""
    category: str = ""
    keeper: str = ""
    bytes: int = 0


class TensorOwner(NamedTuple):
    """Owner of a tensor of the training state."""

    category: str
    name: str


class SeenStorage(NamedTuple):
    """A storage at a time."""

    time_ns: int
    block: InitialBlock


# By address. Addresses and objects of gradients are valid only from a backward to its update.
Gradients = dict[int, list[SeenStorage]]

Timed = TypeVar("Timed", TensorUse, SeenStorage)


def label_blocks(
    recorded: RecordedEvents,
    places: Sequence[AllocationPlace],
    calls: Mapping[int, AllocationPlace],
    owners: Mapping[int, TensorOwner],
    gradients: Gradients,
) -> list[BlockLabel]:
    """Label each allocation of a detailed recording; a free has the label of its block.

    Args:
        recorded: with ops.
        places: of `recorded.allocations`.
        calls: places of the forward ops, by sequence number.
        owners: owners of the persistent tensors, by their `_cdata`.
        gradients: the observed gradients.
    """
    uses: dict[int, list[TensorUse]] = defaultdict(list)
    for use in recorded.uses:
        uses[use.address].append(use)
    by_event: list[BlockLabel] = [BlockLabel()] * len(recorded.allocations)
    parameters = {use.address for use in recorded.uses if _is_owned(use, owners, PARAMETER)}
    for index, ends in _match_frees(recorded.allocations):
        allocation = recorded.allocations[index]
        ended = recorded.allocations[ends] if ends is not None else None
        place = places[index]
        used = _select_within_life(uses.get(allocation.address, ()), allocation, ended)
        owner = next((owners[use.tensor] for use in used if use.tensor in owners), None)
        gradient = next(iter(_select_within_life(gradients.get(allocation.address, ()), allocation, ended)), None)
        if owner is None and gradient is not None:
            owner = TensorOwner(GRADIENT, gradient.block.name)
        label = _build_label(allocation, place, used, recorded.forwards, calls, owner, parameters)
        # Addresses are reused: a parameter's is valid only during its life.
        if place.sharding.startswith(UNSHARDING) or label.category == PARAMETER:
            parameters.add(allocation.address)
        else:
            parameters.discard(allocation.address)
        # A module's forward in backward is recomputation: blocks that outlive it are recomputed activations.
        outlives = ends is None or not places[ends].module
        if not label.category and place.phase == _BACKWARD and place.module and outlives:
            label = label._replace(category=RECOMPUTED)
        if (
            not label.category
            and ended is not None
            and ended.call == allocation.call
            and TAKES_WORKSPACE.match(allocation.op)
        ):
            label = label._replace(category=WORKSPACE)
        # An allocation at a live address ends the old block without an event: the event belongs to the next block.
        if ends is not None and ended is not None and ended.size < 0:
            label = label._replace(keeper=places[ends].sharding or ended.node or ended.op)
            by_event[ends] = label
        by_event[index] = label
    return by_event


def _select_within_life(
    times: Sequence[Timed], allocation: ProfiledAllocation, ended: ProfiledAllocation | None
) -> Sequence[Timed]:
    """Items of one address, in time order, within the life of a block."""
    first = bisect_left(times, allocation.time_ns, key=_get_time)
    return times[first : None if ended is None else bisect_right(times, ended.time_ns, key=_get_time)]


def _get_time(timed: TensorUse | SeenStorage) -> int:
    return timed.time_ns


def _match_frees(allocations: Sequence[ProfiledAllocation]) -> Iterator[tuple[int, int | None]]:
    """Index of each allocation and of the event that ended it (None for live blocks), in allocation order."""
    ends: dict[int, int] = {}
    alive: dict[int, int] = {}
    for index, event in enumerate(allocations):
        begun = alive.pop(event.address, None)
        if begun is not None:
            ends[begun] = index
        if event.size > 0:
            alive[event.address] = index
    for index, event in enumerate(allocations):
        if event.size > 0:
            yield index, ends.get(index)


def _build_label(
    allocation: ProfiledAllocation,
    place: AllocationPlace,
    used: Sequence[TensorUse],
    forwards: Mapping[int, ForwardCall],
    calls: Mapping[int, AllocationPlace],
    owner: TensorOwner | None,
    parameters: set[int],
) -> BlockLabel:
    whole = _find_whole_tensor(used, allocation.size, allocation.device.type)
    module, line = place.module, allocation.line
    if allocation.sequence >= 0 and allocation.sequence in calls:
        module = module or calls[allocation.sequence].module
        line = forwards[allocation.sequence].line or line
    category = "" if owner is None else owner.category
    if not category and _is_autocast_copy(allocation, whole, parameters):
        category = AUTOCAST
    if not category and allocation.line.startswith(_PAGERS):
        category = OFFLOAD
    return BlockLabel(
        op=place.sharding or allocation.op,
        module=module if owner is None else owner.name.rpartition(".")[0],
        line=line,
        shape="" if whole is None else str(list(whole.shape)),
        dtype="" if whole is None else shorten_dtype(whole.dtype),
        category=category,
        bytes=0 if whole is None else _compute_bytes(whole),
    )


def _is_autocast_copy(allocation: ProfiledAllocation, whole: TensorUse | None, parameters: set[int]) -> bool:
    cast = allocation.op in _CASTS and bool(allocation.inputs) and allocation.inputs[0] in parameters
    return cast and (whole is None or whole.dtype in _AUTOCAST_DTYPES)


def _is_owned(use: TensorUse, owners: Mapping[int, TensorOwner], category: str) -> bool:
    return use.tensor in owners and owners[use.tensor].category == category


def _find_whole_tensor(used: Sequence[TensorUse], size: int, device: str) -> TensorUse | None:
    """The tensor of a block of `size` bytes: the first of that size, else the largest for which CUDA's allocator does
    not split the block."""
    if is_cpu(device):
        return next((use for use in used if _compute_bytes(use) == size), None)
    exact = next((use for use in used if round_cuda_size(_compute_bytes(use)) == size), None)
    return exact or max(
        (use for use in used if can_cuda_serve(size, _compute_bytes(use))), key=_compute_bytes, default=None
    )


def _compute_bytes(use: TensorUse) -> int:
    return math.prod(use.shape) * use.dtype.itemsize
