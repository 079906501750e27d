"""What blocks are: told for one step that was recorded in every detail, carried over to steps that were not."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from perfkit.allocations import AUTOCAST, CUDA_UNIT_BYTES, GRADIENT, OFFLOAD, PARAMETER, RECOMPUTED, WORKSPACE
from perfkit.capture.memory.places import FSDP, Place
from perfkit.capture.memory.profiler import Allocation, Call, Recorded, Use
from perfkit.capture.tensors import short_dtype
from perfkit.record import PHASES, Block

# FSDP2's copies of whole parameters, which casts start from as they do from plain parameters.
UNSHARDING = FSDP + "all_gather_copy_out"

_BACKWARD = PHASES.index("backward")
_CASTS = frozenset({"aten::_to_copy", "aten::to"})
# Products and convolutions: what these allocate and free within one call is the library's workspace (oneDNN, cuDNN).
_SCRATCH = re.compile(r"aten::(mm|addmm|bmm|baddbmm|addmv|\w*convolution\w*)")
_PAGERS = ("techniques/paging.py", "techniques/paged_")  # lines of perfkit's own offloading


class Label(NamedTuple):
    """What is known of a block; texts are "" where it is not. `keeper` is the op that it was freed in."""

    op: str = ""
    module: str = ""
    line: str = ""
    shape: str = ""
    dtype: str = ""
    category: str = ""
    keeper: str = ""


class Owner(NamedTuple):
    """What a tensor of the training state is."""

    category: str
    name: str


class Seen(NamedTuple):
    """A storage that was there at a time."""

    time_ns: int
    block: Block


# By address. Neither the addresses nor the objects of gradients are theirs for longer than a backward and an update.
Gradients = dict[int, list[Seen]]

Timed = TypeVar("Timed", Use, Seen)


def labels(
    recorded: Recorded,
    places: Sequence[Place],
    calls: Mapping[int, Place],
    owners: Mapping[int, Owner],
    gradients: Gradients,
) -> list[Label]:
    """The label of each allocation of a detailed recording; that of a free is of the block it ends.

    Args:
        recorded: with ops.
        places: of `recorded.allocations`.
        calls: where the forward ops were, by sequence number.
        owners: what tensors are that stay, by their `_cdata`.
        gradients: those that were seen.
    """
    uses: dict[int, list[Use]] = defaultdict(list)
    for use in recorded.uses:
        uses[use.address].append(use)
    found: list[Label] = [Label()] * len(recorded.allocations)
    parameters = {use.address for use in recorded.uses if _owned(use, owners, PARAMETER)}
    for index, ends in _blocks(recorded.allocations):
        made = recorded.allocations[index]
        ended = recorded.allocations[ends] if ends is not None else None
        place = places[index]
        used = _between(uses.get(made.address, ()), made, ended)
        owner = next((owners[use.tensor] for use in used if use.tensor in owners), None)
        gradient = next(iter(_between(gradients.get(made.address, ()), made, ended)), None)
        if owner is None and gradient is not None:
            owner = Owner(GRADIENT, gradient.block.name)
        label = _label(made, place, used, recorded.forwards, calls, owner, parameters)
        # Addresses are taken again, and a parameter's is one only as long as it is there.
        if place.sharding.startswith(UNSHARDING) or label.category == PARAMETER:
            parameters.add(made.address)
        else:
            parameters.discard(made.address)
        # A module's forward in backward is recomputation: what outlives it is an activation once more.
        outlives = ends is None or not places[ends].module
        if not label.category and place.phase == _BACKWARD and place.module and outlives:
            label = label._replace(category=RECOMPUTED)
        if not label.category and ended is not None and ended.call == made.call and _SCRATCH.fullmatch(made.op):
            label = label._replace(category=WORKSPACE)
        # An allocation at an address that is alive ends it unseen: the event there is the next block's own.
        if ends is not None and ended is not None and ended.size < 0:
            label = label._replace(keeper=places[ends].sharding or ended.node or ended.op)
            found[ends] = label
        found[index] = label
    return found


def _between(times: Sequence[Timed], made: Allocation, ended: Allocation | None) -> Sequence[Timed]:
    """Those of one address (in the order of time) that lie within the life of a block."""
    first = bisect_left(times, made.time_ns, key=_time)
    return times[first : None if ended is None else bisect_right(times, ended.time_ns, key=_time)]


def _time(timed: Use | Seen) -> int:
    return timed.time_ns


def _blocks(allocations: Sequence[Allocation]) -> Iterator[tuple[int, int | None]]:
    """Index of each allocation and of the event that ended it, None for one that stayed; in the order of birth."""
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


def _label(
    made: Allocation,
    place: Place,
    used: Sequence[Use],
    forwards: Mapping[int, Call],
    calls: Mapping[int, Place],
    owner: Owner | None,
    parameters: set[int],
) -> Label:
    whole = next((use for use in used if _fills(use, made.size, made.device.type)), None)
    module, line = place.module, made.line
    if made.sequence >= 0 and made.sequence in calls:
        module = module or calls[made.sequence].module
        line = forwards[made.sequence].line or line
    category = "" if owner is None else owner.category
    if not category and made.op in _CASTS and made.inputs and made.inputs[0] in parameters:
        category = AUTOCAST
    if not category and made.line.startswith(_PAGERS):
        category = OFFLOAD
    return Label(
        op=place.sharding or made.op,
        module=module if owner is None else owner.name.rpartition(".")[0],
        line=line,
        shape="" if whole is None else str(list(whole.shape)),
        dtype="" if whole is None else short_dtype(whole.dtype),
        category=category,
    )


def _owned(use: Use, owners: Mapping[int, Owner], category: str) -> bool:
    return use.tensor in owners and owners[use.tensor].category == category


def _fills(use: Use, size: int, device: str) -> bool:
    """Whether the tensor is the whole of a block."""
    count = use.dtype.itemsize
    for extent in use.shape:
        count *= extent
    return size == (count if device == "cpu" else -(-count // CUDA_UNIT_BYTES) * CUDA_UNIT_BYTES)


def carried(
    events: Sequence[Allocation],
    places: Sequence[Place],
    detailed: Sequence[Allocation],
    detailed_places: Sequence[Place],
    known: Sequence[Label],
) -> list[Label]:
    """The labels of events of other steps that do the same as the detailed one.

    A block is the same if it is the n-th of its size in the same module of the same phase of its step. One that
    has no like keeps its place alone.
    """
    seen: dict[tuple[object, ...], int] = defaultdict(int)
    by_key: dict[tuple[object, ...], Label] = {}
    for event, place, label in zip(detailed, detailed_places, known, strict=True):
        if event.size > 0:
            by_key[_key(event, place, seen)] = label
    counted: dict[tuple[object, ...], int] = defaultdict(int)
    step = None
    found: list[Label] = []
    alive: dict[int, Label] = {}
    for event, place in zip(events, places, strict=True):
        if place.step != step:
            step = place.step
            counted.clear()
        if event.size > 0:
            label = by_key.get(_key(event, place, counted)) or Label(op=place.sharding, module=place.module)
            alive[event.address] = label
        else:
            label = alive.pop(event.address, Label())
        found.append(label)
    return found


def _key(event: Allocation, place: Place, counted: dict[tuple[object, ...], int]) -> tuple[object, ...]:
    key = (place.phase, place.turn, place.module, event.size)
    counted[key] += 1
    return (*key, counted[key])
