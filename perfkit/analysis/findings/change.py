"""A finding's change as data: table rows that take less time, and calls that the CPU no longer makes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from perfkit.analysis.model.matmul_rows import ProductRow
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.trace import CollectiveRow, CopyRow

# Removable parts, in addition to the named parts of the step (`trace_view`).
RECOMPUTED = "recomputed ops"
UNUSED = "ops of an unused graph"
REPEATED = "backward of a graph that ran backward before"
SHORT = "launches of short kernels"

Row = OpRow | ProductRow | CollectiveRow | CopyRow


class Takes(NamedTuple):
    """A row's work takes this fraction of its time; `joins`: it loses its own launch."""

    row: Row
    part: float
    joins: bool = False


@dataclass(frozen=True)
class Change:
    """Rows that take less time, and names of removed parts. An empty change cannot be simulated."""

    takes: tuple[Takes, ...] = ()
    without: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.takes or self.without)


NOTHING = Change()


def leave_out(*names: str) -> Change:
    """Parts of the step go."""
    return Change(without=frozenset(names))


def remove_rows(rows: Iterable[Row], *, joins: bool = False) -> Change:
    """The work of some rows takes no time; `joins`: nor does launching it."""
    return Change(tuple(Takes(row, 0.0, joins) for row in rows))


def raise_to_roof(rows: Iterable[OpRow | ProductRow], *, joins: bool = False) -> Change:
    """Limit the work of some rows to the time at their roof, where known."""
    return Change(
        tuple(
            Takes(row, min(1.0, row.attainable_s / row.seconds), joins)
            for row in rows
            if row.attainable_s is not None and row.seconds > 0
        )
    )


def scale_rows(rows: Iterable[Row], part: float, *, joins: bool = False) -> Change:
    """The work of all of some rows takes the same part of its time."""
    return Change(tuple(Takes(row, part, joins) for row in rows))


def fuse_rows(rows: Iterable[OpRow], kept: OpRow, part: float) -> Change:
    """Fuse rows into one that takes that fraction of its time; the others disappear."""
    return Change(tuple(Takes(row, part) if row is kept else Takes(row, 0.0, joins=True) for row in rows))


def join_changes(changes: Iterable[Change]) -> Change:
    """Several changes of different rows."""
    changes = tuple(changes)
    return Change(
        tuple(takes for change in changes for takes in change.takes),
        frozenset(name for change in changes for name in change.without),
    )
