"""Groups memory by module: the blocks of a stack of equal layers share a row."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.analysis.model.memory_model import MemoryRow


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
