"""Messages of collectives over all ranks: those of all-to-alls and uneven gathers differ between ranks."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.ranks.slots import Slots, Source
from perfkit.analysis.trace.collective_rows import MessageKey
from perfkit.trace.model import NONE, Ints


class SlotMessages(NamedTuple):
    """The messages of each slot: the number of the `largest` (NONE where none is known), and the bytes of all ranks'
    messages together (NaN where they are equal, or one is unknown)."""

    largest: Ints
    total_bytes: NDArray[np.float64]


def reduce_messages(source: Source, ranks: int, slots: Slots, keys: Sequence[MessageKey]) -> SlotMessages:
    """Reduce the ranks' messages to one row for each slot; of equally large ones the order of `keys` does not
    matter."""
    sizes = [-1 if key[3] is None else key[3] for key in keys]
    by_size = sorted(range(len(keys)), key=lambda number: (sizes[number], str(keys[number])))
    place = np.append(np.argsort(by_size), NONE).astype(np.int64)  # NONE (-1) takes the last one
    nbytes = np.asarray([*sizes, np.nan])
    nbytes[nbytes < 0] = np.nan
    top = np.full(slots.size, NONE, np.int64)
    least, most = np.full(slots.size, np.inf), np.full(slots.size, -np.inf)
    total = np.zeros(slots.size)
    for rank in range(ranks):
        rows = source(rank)
        slot = slots.find_slots(rows)
        mine = nbytes[rows.message]
        top[slot] = np.maximum(top[slot], place[rows.message])
        least[slot] = np.fmin(least[slot], mine)
        most[slot] = np.fmax(most[slot], mine)
        total[slot] += mine
    total[least >= most] = np.nan
    return SlotMessages(np.asarray([*by_size, NONE], np.int64)[top], total)
