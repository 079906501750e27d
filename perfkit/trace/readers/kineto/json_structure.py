"""Finds where a trace's text can be split: between events, at the end of their list, between members."""

import re
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_FIRST_WINDOW = 1 << 14
_SLICE_BYTES = 1 << 20


class JsonStructure(NamedTuple):
    """The nesting of brackets and braces outside strings, up to where more close than open.

    Attributes:
        commas: where the commas of the level asked for stand.
        close: where the list or object ends within which the text began; None if it does not.
        depth: at the end, relative to the beginning.
    """

    commas: NDArray[np.int64]
    close: int | None
    depth: int


def find_last_boundary(text: bytes) -> int:
    """The position of the last comma that looks like one between two events; 0 without one.

    It may also separate objects within an event: whether the events before it decode tells.
    """
    window = _FIRST_WINDOW
    while True:
        begin = max(0, len(text) - window)
        commas = deque(_BETWEEN.finditer(text, begin), maxlen=1)
        if commas:
            return text.index(b",", commas[0].start())
        if begin == 0:
            return 0
        window *= 8


def analyze_structure(text: bytes, level: int = 0) -> JsonStructure:
    """The structure of JSON text that begins outside of a string. Means nothing where quotes are not escaped."""
    commas: list[NDArray[np.int64]] = []
    depth, in_string, begin = 0, False, 0
    while begin < len(text):
        end = min(begin + _SLICE_BYTES, len(text))
        while end < len(text) and text[end - 1] == ord("\\"):  # the escaped character belongs to it
            end += 1
        data = np.frombuffer(text, np.uint8, end - begin, begin)
        folded = data | 0x20  # [ and { become one, ] and } another
        marks = np.flatnonzero((data == ord('"')) | (data == ord(",")) | (folded == ord("{")) | (folded == ord("}")))
        kinds = data[marks]
        quotes = kinds == ord('"')
        quotes[quotes] = ~_mark_escaped(data, marks[quotes])
        outside = ((np.cumsum(quotes) + in_string) % 2 == 0) & (kinds != ord('"'))
        at, mark = marks[outside], kinds[outside]
        step = np.where(mark == ord(","), 0, np.where((mark | 0x20) == ord("{"), 1, -1))
        depths = depth + np.cumsum(step)
        here = (mark == ord(",")) & (depths == level)
        below = np.flatnonzero(depths < 0)
        if len(below):
            close = int(at[below[0]])
            commas.append(at[here & (at < close)] + begin)
            return JsonStructure(np.concatenate(commas), begin + close, -1)
        commas.append(at[here] + begin)
        depth = int(depths[-1]) if len(depths) else depth
        in_string ^= bool(quotes.sum() % 2)
        begin = end
    return JsonStructure(np.concatenate(commas) if commas else np.zeros(0, np.int64), None, depth)


def count_within_strings(text: bytes, characters: bytes) -> int:
    """Count `characters` within strings; 0 where a quote has no partner."""
    data = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(data == ord('"'))
    quotes = quotes[~_mark_escaped(data, quotes)]
    if len(quotes) % 2:
        return 0
    wanted = np.zeros(256, np.bool_)
    wanted[list(characters)] = True
    return int((np.searchsorted(quotes, np.flatnonzero(wanted[data])) % 2).sum())


def _mark_escaped(data: NDArray[np.uint8], quotes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark quotes after an odd number of backslashes."""
    slashes = np.flatnonzero(data == ord("\\"))
    if not len(slashes):
        return np.zeros(len(quotes), np.bool_)
    begins = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    run = np.repeat(begins, np.diff(np.append(begins, len(slashes))))
    length = np.arange(len(slashes)) - run + 1  # of the run of backslashes, up to this one
    before = np.searchsorted(slashes, quotes - 1)
    slash = np.minimum(before, len(slashes) - 1)
    odd: NDArray[np.bool_] = (slashes[slash] == quotes - 1) & (length[slash] % 2 == 1)
    return odd
