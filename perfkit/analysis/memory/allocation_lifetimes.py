"""The lifetimes of blocks: replayed allocation events."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import NONE, Allocations, Ints

AT_START = -1


@dataclass(frozen=True)
class Lifetimes:
    """Blocks from birth to death, one row each, in the order of birth; alive after event i if `born <= i < died`.

    Attributes:
        size: bytes.
        born: the event that allocated it, AT_START for one that was alive before the first event.
        died: the event that freed it, the number of events for one that is alive after the last.
        known: index into `Allocations.known`, NONE for one that is not known from there.
    """

    size: Ints
    born: Ints
    died: Ints
    known: Ints

    def __len__(self) -> int:
        return len(self.size)

    def alive_after(self, event: int) -> NDArray[np.bool_]:
        """The blocks alive after an event; AT_START: before the first."""
        return (self.born <= event) & (event < self.died)


def build_lifetimes(allocations: Allocations) -> Lifetimes:
    """Replay the events: who was alive when. Every event begins one life at most and ends one at most.

    - An allocation at an address that is still alive ends the block there: its free was not reported (a CPU's profiler
      reports no free of what was allocated before it began; a ring buffer loses events).
    - A free of an address that is not alive means a block that was there from the start.
    - A free ends its block whole, whatever size it names: the allocation's counts.
    - Of `known` blocks with the same address the last counts. Sizes of 0 are passed over.
    - `unexplained_bytes`, less those that a free explains as just said, are one life from the start to the end. So the
      bytes alive at the start are those known and those unexplained, as the allocator counted them; unless frees
      explain more than that (events were lost), when they count.
    - Without addresses (NONE), a free ends the youngest living block of its size and category, of its size alone where
      frees name no category: which block it was is a guess, but sizes and categories add up at every moment.
    """
    blocks = allocations.known
    size = np.concatenate([np.array([max(block.size_bytes, 0) for block in blocks], np.int64), allocations.size])
    real = np.flatnonzero(size)
    place, size = _assign_places(allocations, size)[real], size[real]
    event = real - len(blocks)  # negative for known blocks
    begins = size > 0

    order = np.argsort(place, kind="stable")
    at_same = place[order[1:]] == place[order[:-1]]
    next_event = np.full(len(real), len(allocations), np.int64)
    next_event[order[:-1][at_same]] = event[order[1:][at_same]]
    ends = np.zeros(len(real), np.bool_)  # of frees: those whose block is known
    ends[order[1:][at_same]] = begins[order[:-1][at_same]]

    known = np.flatnonzero(begins & (event < 0) & (next_event >= 0))
    from_start = np.flatnonzero(~begins & ~ends)
    born = np.flatnonzero(begins & (event >= 0))
    rest = np.array([allocations.unexplained_bytes + int(size[from_start].sum())])  # sizes of frees are negative
    rest = rest[rest > 0]
    others = len(from_start) + len(rest)
    return Lifetimes(
        size=np.concatenate([size[known], -size[from_start], rest, size[born]]),
        born=np.concatenate([np.full(len(known) + others, AT_START), event[born]]),
        died=np.concatenate(
            [next_event[known], event[from_start], np.full(len(rest), len(allocations)), next_event[born]]
        ),
        known=np.concatenate([real[known], np.full(others + len(born), NONE)]),
    )


def _assign_places(allocations: Allocations, size: Ints) -> Ints:
    """Assign places to known blocks, then to events, so that no two blocks share a place at a time.

    The address; without one, a number below all addresses that stands for the size, the category and how many such
    blocks were alive.
    """
    address = np.concatenate([np.array([block.address for block in allocations.known], np.int64), allocations.address])
    lost = np.flatnonzero(address == NONE)
    if len(lost):
        address[lost] = (
            min(int(address.min()), 0) - 1 - _stack_places(size[lost], _number_categories(allocations)[lost])
        )
    return address


def _stack_places(size: Ints, category: Ints) -> Ints:
    """Number places (from 0) for events without addresses: equal blocks form a stack, last in, first out."""
    if not category[size < 0].any():
        category = np.zeros_like(category)
    order = np.lexsort((category, np.abs(size)))
    bytes_, category, change = np.abs(size)[order], category[order], np.sign(size)[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (bytes_[1:] != bytes_[:-1]) | (category[1:] != category[:-1])
    stack = np.cumsum(first) - 1
    height = np.cumsum(change)
    height -= (height - change)[first][stack]
    level = np.where(change < 0, height + 1, height)  # a free finds its block at the height there was before
    level -= level.min()
    places = np.empty(len(order), np.int64)
    places[order] = stack * (int(level.max()) + 1) + level
    return places


def _number_categories(allocations: Allocations) -> Ints:
    """The category numbers of the known blocks, then of the events."""
    numbers = {name: number for number, name in enumerate(allocations.names)}
    known = [numbers.setdefault(block.category, len(numbers)) for block in allocations.known]
    return np.concatenate([np.array(known, np.int64), allocations.category])
