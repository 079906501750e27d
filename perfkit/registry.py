"""Names to objects, loaded when asked for, open to third parties through entry points.

A registry is a table `{name: "module:attribute"}`. Reading the table imports nothing, so that listing names
costs no import of torch. Another package adds a name with an entry point of the registry's group.
"""

import importlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from perfkit.errors import unknown_name

T = TypeVar("T")


class Registry(Generic[T]):
    """A lazy table of named objects of type `T`."""

    def __init__(self, kind: str, group: str, table: Mapping[str, str]) -> None:
        self.kind = kind
        self._group = group
        self._table = dict(table)

    def _targets(self) -> dict[str, str]:
        third_party = {point.name: point.value for point in entry_points(group=self._group)}
        return {**third_party, **self._table}  # a built-in name is never replaced

    def names(self) -> tuple[str, ...]:
        """Every registered name, built-in ones first in the order of their table."""
        targets = self._targets()
        return (*self._table, *sorted(set(targets) - set(self._table)))

    def load(self, name: str) -> T:
        """The object called `name`; an unknown name is a `UsageError` that names the nearest ones."""
        targets = self._targets()
        if name not in targets:
            raise unknown_name(self.kind, name, targets)
        module, _, attribute = targets[name].partition(":")
        return cast(T, getattr(importlib.import_module(module), attribute))
