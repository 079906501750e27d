"""Groups memory by module, and equal allocations: the blocks of a stack of equal layers share a row."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.analysis.model.memory_model import LiveBlock, MemoryRow

_INDEX = re.compile(r"\[\d+\]")  # of an optimizer's state, by parameter


@dataclass(frozen=True)
class ModuleRow:
    """Bytes at the peak of one category in `modules` modules, whose names differ only in block numbers."""

    module: str
    category: str
    bytes: int
    blocks: int
    modules: int


def group_by_module(rows: Iterable[MemoryRow]) -> list[ModuleRow]:
    """Modules that differ only in block numbers share a row, `h.*.mlp`; a single one keeps its name.

    Largest first.
    """
    groups: dict[tuple[str, str], list[MemoryRow]] = defaultdict(list)
    for row in rows:
        groups[fold_layer_numbers(row.module), row.category].append(row)
    grouped = []
    for (module, category), members in groups.items():
        names = {row.module for row in members}
        grouped.append(
            ModuleRow(
                module=names.pop() if len(names) == 1 else module,
                category=category,
                bytes=sum(row.bytes for row in members),
                blocks=sum(row.blocks for row in members),
                modules=len({row.module for row in members}),
            )
        )
    return sorted(grouped, key=lambda row: -row.bytes)


@dataclass(frozen=True)
class EqualBlocks:
    """`count` allocations that differ only in the numbers of their layers; `block` is one, with `*` for these."""

    block: LiveBlock
    count: int

    @property
    def bytes(self) -> int:
        """Their sum."""
        return self.count * self.block.bytes


def group_equal_blocks(blocks: Iterable[LiveBlock]) -> list[EqualBlocks]:
    """Allocations of equal size, category and origin share a row; a single one keeps its name.

    The largest sum first.
    """
    groups: dict[LiveBlock, list[LiveBlock]] = defaultdict(list)
    for block in blocks:
        groups[replace(block, name=_fold_numbers(block.name), module=_fold_numbers(block.module))].append(block)
    rows = [
        EqualBlocks(members[0] if len(members) == 1 else folded, len(members)) for folded, members in groups.items()
    ]
    return sorted(rows, key=lambda row: -row.bytes)


def _fold_numbers(name: str) -> str:
    return _INDEX.sub("[*]", fold_layer_numbers(name))
