"""Parses numbers of a trace: identifiers as 64-bit integers, times as exact nanoseconds, from any writer."""

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import NONE, Ints

Floats = NDArray[np.float64]

_HALF, _WHOLE = 1 << 63, 1 << 64
_FIXED = re.compile(rb"(?:\d+\.\d{3}\n)*\d+\.\d{3}")
_INTEGERS = re.compile(rb"(?:\d+\n)*\d+")

# From here on a double cannot tell nanoseconds apart in a time in microseconds. Kineto's own times stay below: it
# counts from a base that it renews every three months.
DOUBLE_IS_EXACT_BELOW_US = float(1 << 43)
DOUBLE_IS_INTEGER_BELOW = float(1 << 53)
# Of a time that long, or of another number: one that begins with the point is found ten times as fast.
FRACTION_OF_LONG_TIME = re.compile(rb"\.(?<=\d{13}\.)\d")

# A time since 1970 in microseconds reaches this in the year 5138; in nanoseconds it did in 1973.
NANOSECONDS_FROM = 1e17
# Differences of two such times in nanoseconds fit 64 bits, and so do dates until the year 2115.
_LONGEST = 4.6e18
# More bytes or elements than any memory holds.
_MOST = 1 << 50


def parse_integer(value: Any) -> int:
    """Parse an identifier as a signed 64-bit number; text may be decimal or hexadecimal (`0x7f...`). NONE where
    invalid.

    Unsigned numbers above 2^63 wrap, which keeps distinct ones distinct and makes the unsigned form of -1 NONE.
    """
    if isinstance(value, str):
        try:
            value = int(value, 0)
        except ValueError:
            return NONE
    elif isinstance(value, float):
        if not value.is_integer():
            return NONE
        value = int(value)
    elif not isinstance(value, int):
        return NONE
    if _HALF <= value < _WHOLE:
        value -= _WHOLE
    return int(value) if -_HALF <= value < _HALF else NONE


def parse_size(value: Any) -> int:
    """Parse a number of bytes or elements; NONE where invalid or larger than any memory."""
    number = parse_integer(value)
    return number if 0 <= number <= _MOST else NONE


def parse_list(value: Any) -> tuple[int, ...]:
    """Parse a list of sizes or ranks, or its text (`[0, 1]`); empty where one is invalid or left out (`...`)."""
    if isinstance(value, list):
        return _parse_parts(tuple(bytes(part).decode("ascii", "replace") for part in value))
    return _parse_text(value) if isinstance(value, str) else ()


@lru_cache(maxsize=256)  # the ranks of a group are written with each of its collectives
def _parse_text(text: str) -> tuple[int, ...]:
    return _parse_parts(tuple(filter(None, text.strip("[] ").split(","))))


def _parse_parts(parts: tuple[str, ...]) -> tuple[int, ...]:
    numbers = tuple(parse_size(part.strip()) for part in parts)
    return () if NONE in numbers else numbers


def parse_integers(values: Callable[[], Iterable[Any]], count: int) -> Ints:
    """`count` identifiers as a column. `values` is called again if one of them is not a plain 64-bit integer."""
    try:
        return np.fromiter(values(), np.int64, count)
    except (TypeError, OverflowError, ValueError):
        return np.fromiter(map(parse_integer, values()), np.int64, count)


def mask_implausible_sizes(values: Ints) -> Ints:
    """Mask such values in a column of integers."""
    return np.where((values >= 0) & (values <= _MOST), values, NONE)


def mask_implausible_changes(values: Ints) -> Ints:
    """Numbers of bytes that may be negative; 0 for those that no memory holds."""
    return np.where((values >= -_MOST) & (values <= _MOST), values, 0)


def scale_times(values: Floats, scale: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Times in units of `scale` nanoseconds as nanoseconds, and which of them are times at all."""
    good = np.abs(values) < _LONGEST / scale  # false for NaN too
    values = np.where(good, values, 0)
    # Whole units as integers: their product need not fit a double. Times have at most three decimals; rounding the
    # rest after the product gives the nanosecond that was meant.
    whole = np.floor(values)
    return whole.astype(np.int64) * scale + np.rint((values - whole) * scale).astype(np.int64), good


def parse_exact_times(texts: Sequence[bytes]) -> tuple[Ints, NDArray[np.bool_], int]:
    """Times as written, as nanoseconds; which of them are times at all; and their unit in nanoseconds (1000 or 1)."""
    joined = b"\n".join(texts)
    good = np.ones(len(texts), np.bool_)
    try:
        if _FIXED.fullmatch(joined):
            return np.fromiter(map(int, joined.replace(b".", b"").split()), np.int64, len(texts)), good, 1000
        if _INTEGERS.fullmatch(joined):
            values = np.fromiter(map(int, joined.split()), np.int64, len(texts))
            unit = _detect_unit(values.astype(np.float64))
            good = values < _LONGEST / unit
            return np.where(good, values, 0) * unit, good, unit
    except OverflowError:
        pass  # some are absurd: one by one
    decimals = [_parse_decimal(text) for text in texts]
    known = [float(decimal) for decimal in decimals if decimal is not None]
    unit = _detect_unit(np.asarray(known))
    whole = [None if decimal is None else round(decimal * unit) for decimal in decimals]
    good = np.asarray([time_ns is not None and abs(time_ns) < _LONGEST for time_ns in whole], np.bool_)
    fits = [time_ns if ok and time_ns is not None else 0 for time_ns, ok in zip(whole, good.tolist(), strict=True)]
    return np.asarray(fits, np.int64), good, unit


def _detect_unit(values: Floats) -> int:
    return 1 if len(values) and np.median(values) >= NANOSECONDS_FROM else 1000


def _parse_decimal(text: bytes) -> Decimal | None:
    try:
        value = Decimal(bytes(text).strip(b'"').decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return value if value.is_finite() and -30 < value.adjusted() < 20 else None
