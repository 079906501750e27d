"""Resolves names to objects, loaded on demand, open to third parties through entry points.

A registry is a table `{name: "module:attribute"}`. Reading the table imports nothing, so listing names does not import
torch. Another package adds a name with an entry point of the registry's group.
"""

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Generic, TypeVar, cast

from perfkit.core.errors import PerfkitError, UsageError, make_unknown_name_error

T = TypeVar("T")
R = TypeVar("R")


class BrokenPluginError(UsageError):
    """Another package's entry point is unusable; the message names it, its package and the reason."""

    id = "usage.broken_plugin"


class Registry(Generic[T]):
    """A lazy table of named objects of type `T`.

    `misfit` says why another package's object is not one of these; empty if it is.
    """

    def __init__(
        self, kind: str, group: str, table: Mapping[str, str], misfit: Callable[[str, object], str] = lambda *_: ""
    ) -> None:
        self.kind = kind
        self._group = group
        self._table = dict(table)
        self._misfit = misfit

    def _collect_targets(self) -> dict[str, str]:
        third_party = {point.name: point.value for point in read_entry_points(self._group)}
        return {**third_party, **self._table}  # a built-in name is never replaced

    def list_names(self) -> tuple[str, ...]:
        """Every registered name, built-in ones first in the order of their table."""
        targets = self._collect_targets()
        return (*self._table, *sorted(set(targets) - set(self._table)))

    def load(self, name: str) -> T:
        """The object called `name`; an unknown name is a `UsageError` that names the nearest ones.

        Raises `BrokenPluginError` where another package's cannot be had.
        """
        return self.ask_object(name, lambda it: it)

    def ask_object(self, name: str, question: Callable[[T], R]) -> R:
        """Apply `question` to the object called `name`; raise `BrokenPluginError` if another package's object fails."""
        if name in self._table:
            return question(cast(T, _import_target(self._table[name])))
        target = self._collect_targets().get(name)
        if target is None:
            raise make_unknown_name_error(self.kind, name, self._collect_targets())
        try:
            target_object = _import_target(target)
            misfit = self._misfit(name, target_object)
            if not misfit:
                return question(cast(T, target_object))
        except PerfkitError:
            raise  # its message says what is wrong
        except (Exception, SystemExit) as error:
            raise self._make_broken_error(name, target, f"{type(error).__name__}: {error}") from error
        raise self._make_broken_error(name, target, misfit)

    def _make_broken_error(self, name: str, target: str, reason: str) -> BrokenPluginError:
        points = read_entry_points(self._group)
        owner = next((point.dist.name for point in points if point.name == name and point.dist), "another package")
        first = next(iter(reason.splitlines()), reason)
        return BrokenPluginError(f"the {self.kind} {name!r} of {owner} ({target}) is broken: {first.rstrip(': ')}")


@cache
def read_entry_points(group: str) -> EntryPoints:
    """Those of all installed packages, whose metadata take tens of milliseconds: read once in a process."""
    return entry_points(group=group)


def _import_target(target: str) -> object:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
