"""Finds unmarked steps by repeating work."""

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import Ints

# Fewer repeats of a sequence may be layers, or chance.
LEAST_REPEATS = 3
# A sequence is compared with itself at a few places before it is compared in full, and that not without end.
_SAMPLE = 256
_MOST_COMPARISONS = 1000


def find_period(sequence: NDArray[np.integer]) -> int | None:
    """The smallest p such that each element equals the one p before it, if at least three periods fit.

    The whole sequence has to repeat: the layers of one pass over a model do, too, but for what comes before and after
    them, and are no steps. The rarest element decides where to look, as it occurs in every repeat.
    """
    if len(sequence) < LEAST_REPEATS:
        return None
    _, number, counts = np.unique(sequence, return_inverse=True, return_counts=True)
    if int(counts.min()) < LEAST_REPEATS:
        return None
    places = np.flatnonzero(number == int(counts.argmin()))
    compared = 0
    for candidate in (places[1:] - places[0]).tolist():
        if candidate * LEAST_REPEATS > len(sequence) or compared == _MOST_COMPARISONS:
            return None
        sample = np.linspace(0, len(sequence) - candidate - 1, _SAMPLE, dtype=np.int64)
        if np.array_equal(number[sample], number[sample + candidate]):
            compared += 1
            if np.array_equal(number[candidate:], number[:-candidate]):
                return int(candidate)
    return None


def find_repeats(sequence: NDArray[np.integer], starts: Ints, end: int) -> tuple[Ints, Ints, int] | None:
    """The start and end times of whole repeats, and their length in elements; None without any.

    `starts` are the times of the elements; `end` is when the last one's work is over.
    """
    length = find_period(sequence)
    if length is None:
        return None
    whole = len(sequence) // length
    bounds = np.append(starts, end)[np.arange(whole + 1) * length]
    return bounds[:-1], bounds[1:], length
