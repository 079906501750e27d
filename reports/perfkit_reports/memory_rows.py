"""Rows of memory by module: the blocks of a stack of equal layers as one row."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from perfkit.analysis.result import MemoryRow

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")  # a part of a dotted name that is nothing but a number


@dataclass(frozen=True)
class ModuleRow:
    """Bytes at the peak of one category, of `modules` modules whose names differ in the numbers of blocks only."""

    module: str
    category: str
    bytes: int
    blocks: int
    modules: int


def by_module(rows: Iterable[MemoryRow]) -> list[ModuleRow]:
    """`h.0.mlp` to `h.11.mlp` become `h.*.mlp`; one alone keeps its name. The largest comes first."""
    groups: dict[tuple[str, str], list[MemoryRow]] = defaultdict(list)
    for row in rows:
        groups[_NUMBER.sub("*", row.module), row.category].append(row)
    made = []
    for (folded, category), members in groups.items():
        names = {row.module for row in members}
        made.append(
            ModuleRow(
                module=names.pop() if len(names) == 1 else folded,
                category=category,
                bytes=sum(row.bytes for row in members),
                blocks=sum(row.blocks for row in members),
                modules=len({row.module for row in members}),
            )
        )
    return sorted(made, key=lambda row: -row.bytes)
