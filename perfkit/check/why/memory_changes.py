"""Compares memory at the peak between two sides, by category and by origin."""

from collections import defaultdict
from collections.abc import Sequence

from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.analysis.model.memory_model import MemoryAccount, MemoryRow
from perfkit.check.judge.result import MemoryChange


def compare_by_category(before: MemoryAccount, after: MemoryAccount) -> tuple[MemoryChange, ...]:
    """Every category, largest change first; they sum to the peaks."""
    was = {share.category: share.bytes for share in before.categories}
    now = {share.category: share.bytes for share in after.categories}
    changes = [
        MemoryChange(category=category, before=was.get(category, 0), after=now.get(category, 0))
        for category in was | now
    ]
    return tuple(sorted(changes, key=_get_sort_key))


def compare_by_origin(before: MemoryAccount, after: MemoryAccount) -> tuple[MemoryChange, ...]:
    """Differences by category, module and op, largest change first.

    Modules that differ only in numbers and changed alike share a row, `h.*.attn`; a single one keeps its name.
    """
    was, now = _map_bytes(before.rows), _map_bytes(after.rows)
    groups: dict[tuple[str, str, str], list[tuple[str, int, int]]] = defaultdict(list)
    for key in was | now:
        category, module, op = key
        old, new = was.get(key, 0), now.get(key, 0)
        if old != new:
            groups[category, fold_layer_numbers(module), op].append((module, old, new))
    changes = [
        MemoryChange(
            category=category,
            before=sum(old for _, old, _ in members),
            after=sum(new for _, _, new in members),
            module=members[0][0] if len(members) == 1 else module,
            op=op,
        )
        for (category, module, op), members in groups.items()
    ]
    return tuple(sorted(changes, key=_get_sort_key))


def _map_bytes(rows: Sequence[MemoryRow]) -> dict[tuple[str, str, str], int]:
    return {(row.category, row.module, row.op): row.bytes for row in rows}


def _get_sort_key(change: MemoryChange) -> tuple[int, int]:
    return -abs(change.after - change.before), -change.after
