"""Identifiers and times, whatever the writer made of them."""

import msgspec
import numpy as np
import pytest

from perfkit.trace.model import NONE
from perfkit.trace.readers.event_table.parse_numbers import (
    parse_exact_times,
    parse_integer,
    parse_integers,
    parse_list,
    scale_times,
)


@pytest.mark.parametrize(
    ("given", "number"),
    [(7, 7), ("7", 7), ("0x1f", 31), (7.0, 7), (7.5, NONE), ("x", NONE), (None, NONE), ([1], NONE), (2**63, -(2**63)),
     (2**64 - 1, NONE), (2**64, NONE), (-(2**63), -(2**63)), (1e300, NONE), (float("nan"), NONE), (True, 1)],
)  # fmt: skip
def test_integer(given: object, number: int) -> None:
    assert parse_integer(given) == number


@pytest.mark.parametrize(
    ("given", "numbers"),
    [("[0, 5, 12]", (0, 5, 12)), ("[]", ()), ("", ()), (None, ()), ("[0, 1, ..., 63]", ()), ("[3,-1]", ()), (7, ()),
     ([msgspec.Raw(b"4"), msgspec.Raw(b"x")], ()), ([msgspec.Raw(b"4"), msgspec.Raw(b"9")], (4, 9))],
)  # fmt: skip
def test_a_list_is_known_if_all_of_it_is(given: object, numbers: tuple[int, ...]) -> None:
    assert parse_list(given) == numbers


def test_a_column_of_identifiers() -> None:
    assert parse_integers(lambda: iter([1, 2]), 2).tolist() == [1, 2]
    assert parse_integers(lambda: iter([1, "0x2", None, 2**70]), 4).tolist() == [1, 2, NONE, NONE]


def test_microseconds_as_nanoseconds() -> None:
    values = np.asarray([0.001, 8_796_093_022_207.999, 1_682_725_898_236_567.0, -1.5, np.nan, np.inf, 1e300])
    found, good = scale_times(values, 1000)
    assert found[:4].tolist() == [1, 8_796_093_022_207_999, 1_682_725_898_236_567_000, -1500]
    assert good.tolist() == [True] * 4 + [False] * 3


@pytest.mark.parametrize(
    ("texts", "nanoseconds", "unit"),
    [
        ([b"1682725898236567.123", b"1682725898236567.124"], [1682725898236567123, 1682725898236567124], 1000),
        ([b"1682725898236567", b"5"], [1682725898236567000, 5000], 1000),
        ([b"1682725898236567.5", b'"7.25"', b"-3", b"1e3"], [1682725898236567500, 7250, -3000, 1000000], 1000),
        ([b"1682725898236567123", b"1682725898236567999"], [1682725898236567123, 1682725898236567999], 1),
    ],
)
def test_times_as_written(texts: list[bytes], nanoseconds: list[int], unit: int) -> None:
    found, good, in_unit = parse_exact_times(texts)
    assert (found.tolist(), good.all(), in_unit) == (nanoseconds, True, unit)


def test_times_that_are_none() -> None:
    found, good, _ = parse_exact_times(
        [b"", b"null", b"1e400", b"1e999999999", b"NaN", b"99999999999999999999999", b"4.0"]
    )
    assert good.tolist() == [False] * 6 + [True]
    assert found[-1] == 4000
