"""Facts of which only the bounds are known."""

from collections.abc import Mapping
from typing import NamedTuple


class Bounds(NamedTuple):
    """A fact lies from `low` to `high` (infinite where nothing limits it); `note` says how it is known, or why not."""

    low: float
    high: float
    note: str


Fact = float | Bounds
Facts = Mapping[str, Fact]


def bounds_of(fact: Fact) -> Bounds:
    return fact if isinstance(fact, Bounds) else Bounds(fact, fact, "")
