"""Columns of values that many packets state."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import NONE, Ints
from perfkit.trace.readers.protobuf.wire import WireBuffer, WireFields, WireNumbers

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
_MOST_DIGITS = 18
# Numbers in so wide a range are looked up in a table, others are sorted.
_LARGEST_TABLE = 1 << 16
_BUCKET_BITS = 12
_BUCKET_SHIFT = np.uint64(64 - _BUCKET_BITS)
_LOW_BYTES = np.asarray([(1 << 8 * count) - 1 for count in range(9)], np.uint64)  # of a word its first so many


def place_values(column: NDArray[Any], fields: WireNumbers) -> None:
    """Put the values of fields where their messages are."""
    column[fields.owner] = fields.value


def map_distinct(values: Ints, function: Callable[[int], int]) -> Ints:
    """A function of numbers, called once for each distinct one."""
    if not len(values):
        return np.zeros(0, np.int64)
    least, most = int(values.min()), int(values.max())
    if most - least < _LARGEST_TABLE:
        table = np.zeros(most - least + 1, np.int64)
        places = values - least
        table[places] = 1
        for place in np.flatnonzero(table).tolist():
            table[place] = function(place + least)
        found: Ints = table[places]
        return found
    distinct, inverse = np.unique(values, return_inverse=True)
    mapped: Ints = np.asarray([function(value) for value in distinct.tolist()], np.int64)[inverse]
    return mapped


def map_pairs(first: Ints, second: Ints, function: Callable[[int, int], int]) -> Ints:
    """A function of two numbers, called once for each distinct pair."""
    if len(first) and (first == first[0]).all():
        return map_distinct(second, partial(function, int(first[0])))
    mapped = np.zeros(len(first), np.int64)
    for value in np.unique(first).tolist():
        its = np.flatnonzero(first == value)
        mapped[its] = map_distinct(second[its], partial(function, value))
    return mapped


def number_texts(buffer: WireBuffer, texts: WireFields, table: dict[str, int]) -> Ints:
    """Numbers of short texts. Those of one length that begin and end with the same eight bytes count as equal."""
    length = texts.end - texts.start
    first, last = buffer.words[texts.start], buffer.words[np.maximum(texts.end - 8, 0)]
    first = first & _LOW_BYTES[np.minimum(length, 8)]
    last[length < 8] = 0
    key = first * _MIX[0] ^ last * _MIX[1] ^ length.astype(np.uint64) * _MIX[2]
    index, inverse = _find_distinct(key)
    spans = zip(texts.start[index].tolist(), texts.end[index].tolist(), strict=True)
    known = [buffer.data[start:end].decode("utf-8", "replace") for start, end in spans]
    numbers = np.asarray([table.setdefault(each, len(table)) for each in known], np.int64)
    return numbers[inverse]


def _find_distinct(key: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Where each distinct key is, and which of them each is: by a table of buckets, unless two keys share one."""
    bucket = (key * _MIX[0] >> _BUCKET_SHIFT).view(np.int64)
    member = np.full(1 << _BUCKET_BITS, NONE, np.int64)
    member[bucket] = np.arange(len(key))
    if (key[member[bucket]] == key).all():
        filled = np.flatnonzero(member != NONE)
        number = np.zeros(len(member), np.int64)
        number[filled] = np.arange(len(filled))
        return member[filled], number[bucket]
    _, index, inverse = np.unique(key, return_index=True, return_inverse=True)
    return index, inverse


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
