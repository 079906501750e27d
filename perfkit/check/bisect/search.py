"""The binary search: which candidate to test next, and what is known at the end."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """What a test says of a candidate: like the good end, like the bad one, or neither could be told."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


class Bounds(NamedTuple):
    """The last good and the first bad candidate known, and those between them that could not be told."""

    last_good: int
    first_bad: int
    unknown: tuple[int, ...]


def find_bounds(count: int, outcomes: Mapping[int, Outcome]) -> Bounds:
    """What is known of `count` candidates, of which the first is good and the last is bad."""
    bad = min((index for index, outcome in outcomes.items() if outcome is Outcome.BAD), default=count - 1)
    good = max(
        (index for index, outcome in outcomes.items() if outcome is Outcome.GOOD and index < bad),
        default=0,
    )
    unknown = sorted(index for index, outcome in outcomes.items() if good < index < bad and outcome is Outcome.UNKNOWN)
    return Bounds(good, bad, tuple(unknown))


def choose_next(bounds: Bounds, tested: Collection[int]) -> int | None:
    """The untested candidate nearest to the middle of the bounds; None if none is left between them."""
    middle = (bounds.last_good + bounds.first_bad) / 2
    left = (index for index in range(bounds.last_good + 1, bounds.first_bad) if index not in tested)
    return min(left, key=lambda index: (abs(index - middle), index), default=None)
