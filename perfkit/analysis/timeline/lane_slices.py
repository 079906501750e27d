"""Slices of a lane before they are packed, and the texts that they are called by."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

import numpy as np

from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.trace.model import NONE, Ints

LONGEST = 2000  # characters of a text


@dataclass(frozen=True)
class LaneSlices:
    """A lane (one of `LANES`): columns in the order of start, in the trace's time. `name`, `kind`, `op`, `module` and
    `shapes` are numbers of `TextTable`.

    `event` is the row in the trace, NONE for other slices; `link` is the event of origin. `device` is the number of a
    stream's device, NONE of other lanes.
    """

    lane: str
    title: str
    device: int
    start_ns: Ints
    end_ns: Ints
    depth: Ints
    name: Ints
    kind: Ints
    op: Ints
    module: Ints
    shapes: Ints
    event: Ints
    link: Ints

    def __len__(self) -> int:
        return len(self.start_ns)

    def select_rows(self, rows: Ints) -> "LaneSlices":
        """These slices alone."""
        columns = {
            column.name: getattr(self, column.name)[rows]
            for column in fields(self)
            if column.name not in ("lane", "title", "device")
        }
        return replace(self, **columns)

    def replace_times(self, start_ns: Ints, end_ns: Ints) -> "LaneSlices":
        """These slices at other times, in order of start."""
        return replace(self, start_ns=start_ns, end_ns=end_ns)


def make_slices(
    lane: str,
    title: str,
    start_ns: Ints,
    end_ns: Ints,
    *,
    name: Ints,
    kind: Ints,
    depth: Ints | None = None,
    op: Ints | None = None,
    module: Ints | None = None,
    shapes: Ints | None = None,
    event: Ints | None = None,
    link: Ints | None = None,
    device: int = NONE,
) -> LaneSlices:
    """Make a lane of slices in any order; omitted columns are unknown for all."""
    order = np.argsort(start_ns, kind="stable")

    def column(values: Ints | None, otherwise: int = NONE) -> Ints:
        if values is None:
            return np.full(len(start_ns), otherwise, np.int64)
        return values[order].astype(np.int64, copy=False)

    return LaneSlices(
        lane, title, device, start_ns[order], end_ns[order], column(depth, 0), column(name), column(kind), column(op),
        column(module), column(shapes), column(event), column(link),
    )  # fmt: skip


@dataclass
class TextTable:
    """Texts by number, each once."""

    table: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """NONE for no text. What is longer than any name that a person reads is cut."""
        if not text:
            return NONE
        text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
        if text not in self._numbers:
            self._numbers[text] = len(self.table)
            self.table.append(text)
        return self._numbers[text]

    def add_texts(self, column: Ints, text: Callable[[int], str]) -> Ints:
        """Map a column of indices to the numbers of their texts, looking up each index once; NONE stays NONE."""
        if not len(column):
            return np.empty(0, np.int64)
        groups = group_rows(column)
        numbers = [NONE if index == NONE else self.number(text(index)) for index in column[groups.first].tolist()]
        return np.asarray(numbers, np.int64)[groups.of]
