"""Statements of many events of a plane (XStat), by the name of each."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.model import NONE, Ints
from perfkit.trace.readers.protobuf.columns import map_distinct, place_values
from perfkit.trace.readers.protobuf.wire import EIGHT_BYTES, WireBuffer, WireFields, split_messages
from perfkit.trace.readers.xplane.planes import (
    DOUBLE,
    REFERENCE,
    SIGNED,
    STAT_NUMBER,
    TEXT,
    UNSIGNED,
    Plane,
    Statement,
)


class EventStats:
    """Statements of the events whose kinds are given, in the order of the events; an event's own precede its kind's."""

    def __init__(self, buffer: WireBuffer, plane: Plane, stats: WireFields, kind: Ints) -> None:
        self._buffer, self._plane, self._kind = buffer, plane, kind
        self._row = stats.owner
        self._parts, _ = split_messages(buffer, stats.start, stats.end)
        self._name = np.full(len(stats.owner), NONE, np.int64)
        place_values(self._name, self._parts.select_numbers(STAT_NUMBER))
        self._ids = {name: number for number, name in plane.stat_names.items()}

    def are_stated(self, name: str) -> NDArray[np.bool_]:
        """Which events have a statement."""
        kinds = self._map_kinds(name, lambda _: 1)
        stated: NDArray[np.bool_] = kinds > 0
        stated[self._row[self._find(name)]] = True
        return stated

    def read_numbers(self, name: str) -> Ints:
        """A whole number of each event; NONE where there is none."""
        numbers = self._map_kinds(name, lambda value: value if isinstance(value, int) else NONE)
        which = self._find(name)
        numbers[self._row[which]] = self._whole[which]
        return numbers

    def read_texts(self, name: str, number_of: Callable[[str], int]) -> Ints:
        """A function of the text that each event states; NONE where there is none."""
        found = self._map_kinds(name, lambda value: number_of(value) if isinstance(value, str) else NONE)
        which = self._find(name)
        if not len(which):
            return found
        names, data = self._plane.stat_names, self._buffer.data
        referring = which[self._reference[which] != NONE]
        found[self._row[referring]] = map_distinct(
            self._reference[referring], lambda number: number_of(names.get(number, ""))
        )
        texts = self._parts.select_bytes(TEXT)
        wanted = np.flatnonzero(np.isin(texts.owner, which))
        for index in wanted.tolist():
            raw = data[int(texts.start[index]) : int(texts.end[index])]
            found[self._row[texts.owner[index]]] = number_of(escape_control_chars(raw.decode("utf-8", "replace")))
        return found

    def read_values(self) -> tuple[Ints, NDArray[np.float64]]:
        """The numbers that events state, whatever their names, and the event of each: samples of counters."""
        values = np.full(len(self._row), np.nan)
        whole = self._whole
        values[whole != NONE] = whole[whole != NONE]
        exact = self._parts.select_numbers(DOUBLE, EIGHT_BYTES)
        values[exact.owner] = exact.value.view(np.float64)
        which = np.flatnonzero(~np.isnan(values))
        return self._row[which], values[which]

    @cached_property
    def _whole(self) -> Ints:
        column = np.full(len(self._row), NONE, np.int64)
        for number in (UNSIGNED, SIGNED):
            place_values(column, self._parts.select_numbers(number))
        return column

    @cached_property
    def _reference(self) -> Ints:
        column = np.full(len(self._row), NONE, np.int64)
        place_values(column, self._parts.select_numbers(REFERENCE))
        return column

    def _find(self, name: str) -> Ints:
        number = self._ids.get(name)
        return np.zeros(0, np.int64) if number is None else np.flatnonzero(self._name == number)

    def _map_kinds(self, name: str, number_of: Callable[[Statement], int]) -> Ints:
        kinds = self._plane.kinds
        if not any(name in each.statements for each in kinds.values()):
            return np.full(len(self._kind), NONE, np.int64)
        values = {number: number_of(each.statements[name]) for number, each in kinds.items() if name in each.statements}
        return map_distinct(self._kind, lambda number: values.get(number, NONE))
