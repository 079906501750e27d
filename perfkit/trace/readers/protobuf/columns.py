"""Columns of values that many packets state."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import NONE, Ints
from perfkit.trace.readers.protobuf.wire import WireBuffer, WireFields

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
_MOST_DIGITS = 18


def place_values(column: NDArray[Any], fields: WireFields) -> None:
    """Put the values of fields where their messages are."""
    column[fields.owner] = fields.value


def map_distinct(values: Ints, function: Callable[[int], int]) -> Ints:
    distinct, inverse = np.unique(values, return_inverse=True)
    mapped: Ints = np.asarray([function(value) for value in distinct.tolist()], np.int64)[inverse]
    return mapped


def map_pairs(first: Ints, second: Ints, function: Callable[[int, int], int]) -> Ints:
    """A function of two numbers, called once for each distinct pair."""
    if not len(first):
        return np.zeros(0, np.int64)
    pairs = np.stack((first, second))
    order = np.lexsort(pairs[::-1])
    ordered = pairs[:, order]
    begins = np.append(True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0))
    group = np.cumsum(begins) - 1
    mapped = np.asarray([function(a, b) for a, b in ordered[:, begins].T.tolist()], np.int64)
    result = np.empty(len(first), np.int64)
    result[order] = mapped[group]
    return result


def number_texts(buffer: WireBuffer, texts: WireFields, table: dict[str, int]) -> Ints:
    """Numbers of short texts. Those of one length that begin and end with the same eight bytes count as equal."""
    length = texts.end - texts.start
    first, last = buffer.words[texts.start], buffer.words[np.maximum(texts.end - 8, 0)]
    bits = np.minimum(length, 8).astype(np.uint64) * np.uint64(8)
    mask = np.where(bits == 64, ~np.uint64(0), (np.uint64(1) << (bits % np.uint64(64))) - np.uint64(1))
    first, last = first & mask, np.where(length >= 8, last, np.uint64(0))
    key = first * _MIX[0] ^ last * _MIX[1] ^ length.astype(np.uint64) * _MIX[2]
    _, index, inverse = np.unique(key, return_index=True, return_inverse=True)
    spans = zip(texts.start[index].tolist(), texts.end[index].tolist(), strict=True)
    known = [buffer.data[start:end].decode("utf-8", "replace") for start, end in spans]
    numbers = np.asarray([table.setdefault(each, len(table)) for each in known], np.int64)
    return numbers[inverse]


def parse_decimals(buffer: WireBuffer, starts: Ints, ends: Ints) -> Ints:
    """Numbers that are written as decimal text; NONE where a text is none or has more than 18 digits."""
    length = ends - starts
    value, good = np.zeros(len(starts), np.int64), (length > 0) & (length <= _MOST_DIGITS)
    for digit in range(int(length[good].max(initial=0))):
        its = np.flatnonzero(good & (digit < length))
        octet = buffer.octets[starts[its] + digit].astype(np.int64) - ord("0")
        value[its] = value[its] * 10 + octet
        good[its[(octet < 0) | (octet > 9)]] = False
    return np.where(good, value, NONE)
