"""Where the text of a trace may be cut: between events, at the end of their list, between members of the file."""

import re
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_FIRST_WINDOW = 1 << 14


class Structure(NamedTuple):
    """The brackets, braces and commas of a text that stand outside of its strings."""

    at: NDArray[np.int64]
    mark: NDArray[np.uint8]
    depth: NDArray[np.int64]  # after the mark, relative to the beginning

    def commas(self, depth: int) -> NDArray[np.int64]:
        """Where the commas of one depth stand."""
        here: NDArray[np.int64] = self.at[(self.mark == ord(",")) & (self.depth == depth)]
        return here

    @property
    def close(self) -> int | None:
        """Where the list or object ends within which the text began."""
        below = np.flatnonzero(self.depth < 0)
        return int(self.at[below[0]]) if len(below) else None


def last_boundary(text: bytes) -> int:
    """Where the last comma stands that looks like one between two events; 0 if none does.

    It may also separate objects within an event: whether the events before it decode tells.
    """
    window = _FIRST_WINDOW
    while True:
        begin = max(0, len(text) - window)
        found = deque(_BETWEEN.finditer(text, begin), maxlen=1)
        if found:
            return text.index(b",", found[0].start())
        if begin == 0:
            return 0
        window *= 8


def structure(text: bytes) -> Structure:
    """The structure of JSON text that begins outside of a string. Means nothing where quotes are not escaped."""
    data = np.frombuffer(text, np.uint8)
    folded = data | 0x20  # [ and { become one, ] and } another
    marks = np.flatnonzero((data == ord('"')) | (data == ord(",")) | (folded == ord("{")) | (folded == ord("}")))
    kinds = data[marks]
    quotes = kinds == ord('"')
    quotes[quotes] = ~_escaped(data, marks[quotes])
    outside = (np.cumsum(quotes) % 2 == 0) & (kinds != ord('"'))
    at, mark = marks[outside], kinds[outside]
    step = np.where(mark == ord(","), 0, np.where((mark | 0x20) == ord("{"), 1, -1))
    return Structure(at, mark, np.cumsum(step))


def within_strings(text: bytes, characters: bytes) -> int:
    """How many of `characters` stand within strings; 0 where a quote has no partner."""
    data = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(data == ord('"'))
    quotes = quotes[~_escaped(data, quotes)]
    if len(quotes) % 2:
        return 0
    wanted = np.zeros(256, np.bool_)
    wanted[list(characters)] = True
    return int((np.searchsorted(quotes, np.flatnonzero(wanted[data])) % 2).sum())


def _escaped(data: NDArray[np.uint8], quotes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which quotes follow an odd number of backslashes."""
    slashes = np.flatnonzero(data == ord("\\"))
    if not len(slashes):
        return np.zeros(len(quotes), np.bool_)
    begins = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    run = np.repeat(begins, np.diff(np.append(begins, len(slashes))))
    length = np.arange(len(slashes)) - run + 1  # of the run of backslashes, up to this one
    before = np.searchsorted(slashes, quotes - 1)
    found = np.minimum(before, len(slashes) - 1)
    odd: NDArray[np.bool_] = (slashes[found] == quotes - 1) & (length[found] % 2 == 1)
    return odd
