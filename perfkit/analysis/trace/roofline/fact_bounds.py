"""Facts of which only the bounds are known."""

from collections.abc import Mapping
from typing import NamedTuple


class FactBounds(NamedTuple):
    """A fact lies between `low` and `high` (infinite: unbounded); `note` says how it is known, or why not."""

    low: float
    high: float
    note: str


Fact = float | FactBounds
Facts = Mapping[str, Fact]


def get_bounds(fact: Fact) -> FactBounds:
    return fact if isinstance(fact, FactBounds) else FactBounds(fact, fact, "")
