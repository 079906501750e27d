"""Tables that number distinct values by first occurrence."""

from collections.abc import Hashable
from typing import Any

NAMES_BEYOND_THE_LIMIT = "(names beyond the limit)"


class ValueTable(dict[Any, int]):
    """`table[value]` is its number. `fresh` collects the values that were new since it was last emptied.

    Once `limit` values are known, every new one gets the number of `last`, or `NONE` if there is no such value.
    """

    def __init__(self, limit: int | None = None, last: Hashable | None = None) -> None:
        super().__init__()
        self.fresh: list[Any] = []
        self.overflowed = 0
        self._limit, self._last = limit, last

    def __missing__(self, key: Any) -> int:
        if self._limit is not None and len(self) >= self._limit:
            self.overflowed += 1
            if self._last is None:
                return -1
            if self._last in self:
                return self[self._last]
            key = self._last
        number = self[key] = len(self)
        self.fresh.append(key)
        return number

    def take_fresh(self) -> list[Any]:
        """The values that were new since the last call."""
        fresh, self.fresh = self.fresh, []
        return fresh


class TraceTables:
    """The tables of one trace, or of one helper's part of it."""

    def __init__(self, names: int | None = None) -> None:
        self.name = ValueTable(names, NAMES_BEYOND_THE_LIMIT)
        self.cat = ValueTable(1 << 14, "")
        self.thread = ValueTable()
        self.signature = ValueTable(names)
        self.geometry = ValueTable(names)
        self.collective = ValueTable(names)
        self.stated = ValueTable(names)

    def take_fresh(self) -> dict[str, list[Any]]:
        """The new values of every table, by its name."""
        return {name: table.take_fresh() for name, table in vars(self).items()}
