"""A table of rows that knows the pieces of work behind each row."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from perfkit.analysis.trace.time.grouping import RowGroups
from perfkit.trace.compact_ints import Compact, compact_ints
from perfkit.trace.model import NONE, Ints

Row = TypeVar("Row")


@dataclass(frozen=True)
class WorkTable(Generic[Row]):
    """`row_of` is for each piece of work the place of its row, NONE where it has none."""

    rows: tuple[Row, ...]
    row_of: Compact


def build_table(rows: tuple[Row, ...], members: list[Ints], groups: RowGroups) -> WorkTable[Row]:
    """Build the table whose rows merge some groups each: `members` are their numbers."""
    row = np.full(len(groups), NONE, np.int64)
    for place, its in enumerate(members):
        row[its] = place
    return WorkTable(rows, compact_ints(row)[groups.of])
