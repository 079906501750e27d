"""Replaying allocation events: which blocks were alive when, and what each was for.

The replay is exact by construction: the bytes alive at any event are the sum over the blocks alive, whatever the
order of the events, so that categories can be summed and the balance checked.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

PARAMETER = "parameter"
GRADIENT = "gradient"
OPTIMIZER_STATE = "optimizer state"
INPUT = "input"
ACTIVATION = "activation"
TEMPORARY = "temporary"
UNSHARDED_PARAMETER = "unsharded parameter"
COMMUNICATION_BUFFER = "communication buffer"
UNKNOWN = "unknown"

FSDP = "FSDP::"  # how FSDP2 marks what it does
_UNSHARDING = FSDP + "all_gather_copy_out"
_COMMUNICATION = (FSDP, "fsdp::", "c10d::", "_c10d_functional::")

AT_START = -1


class AllocationEvent(NamedTuple):
    """An allocation (positive `size_bytes`) or a free (negative) at `time_s`, in a phase, by an op.

    `phase` is "" outside of any phase; `phase_index` counts the phases begun so far, so that two backward
    phases of one step are told apart.
    """

    time_s: float
    address: int
    size_bytes: int
    phase: str
    phase_index: int
    op: str


class KnownBlock(NamedTuple):
    """A storage that exists when the events begin."""

    address: int
    size_bytes: int
    category: str
    name: str


@dataclass(frozen=True)
class Life:
    """A block from its birth to its death, as indices of events: alive at event i if `born <= i < died`.

    `born` is -1 for a block that was alive before the first event, `died` is the number of events for one that
    is alive after the last.
    """

    size_bytes: int
    born: int
    died: int
    known: KnownBlock | None = None


def replay(events: Sequence[AllocationEvent], known: Iterable[KnownBlock] = ()) -> list[Life]:
    """The lives of all blocks.

    An allocation at the address of a block that is still alive ends that block: its free was not reported (a
    CPU's profiler reports no free of what was allocated before it started). A free of an address that is not
    alive means a block that was there from the start, in no category that is known.
    """
    lives: list[Life] = []
    alive: dict[int, tuple[int, int, KnownBlock | None]] = {
        block.address: (block.size_bytes, AT_START, block) for block in known if block.size_bytes > 0
    }

    def end(address: int, index: int) -> None:
        size, born, block = alive.pop(address)
        lives.append(Life(size, born, index, block))

    for index, event in enumerate(events):
        if event.size_bytes > 0:
            if event.address in alive:
                end(event.address, index)
            alive[event.address] = (event.size_bytes, index, None)
        elif event.size_bytes < 0:
            if event.address in alive:
                end(event.address, index)
            else:
                lives.append(Life(-event.size_bytes, AT_START, index))
    for address in list(alive):
        end(address, len(events))
    return lives


def category(life: Life, events: Sequence[AllocationEvent]) -> str:
    """What a block is for: told by the training state where it was known, else by when it lived.

    Allocated in forward and alive when a later phase begins: activation. Allocated in backward and alive after
    that backward: gradient. Allocated in the optimizer phase and never freed: optimizer state. Allocated with
    the data and alive after it: input. Freed within its own phase: temporary, which includes what checkpointing
    recomputes in backward. Of activations and temporaries those that sharding or a collective allocated are unsharded
    parameters and communication buffers. Anything else is unknown.
    """
    by_time = _by_time(life, events)
    if by_time in (ACTIVATION, TEMPORARY):
        op = events[life.born].op
        if op.startswith(_UNSHARDING):
            return UNSHARDED_PARAMETER
        if op.startswith(_COMMUNICATION):
            return COMMUNICATION_BUFFER
    return by_time


def _by_time(life: Life, events: Sequence[AllocationEvent]) -> str:
    if life.known is not None:
        return life.known.category
    if life.born == AT_START:
        return UNKNOWN
    birth = events[life.born]
    if not birth.phase:
        return UNKNOWN
    survives = life.died == len(events) or events[life.died].phase_index != birth.phase_index
    if not survives:
        return TEMPORARY
    if birth.phase == "optimizer":
        return OPTIMIZER_STATE if life.died == len(events) else UNKNOWN
    return _SURVIVORS.get(birth.phase, UNKNOWN)


_SURVIVORS: Mapping[str, str] = {"data": INPUT, "forward": ACTIVATION, "backward": GRADIENT}
