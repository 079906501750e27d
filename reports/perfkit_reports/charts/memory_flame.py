"""A flame graph of the memory at the peak: by category, module and op."""

import re
from collections.abc import Sequence

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.units import format_percent
from perfkit_reports.charts.flame import build_words_table
from perfkit_reports.document.blocks import Flame, FlameTree
from perfkit_reports.holders import Holder, list_peak_categories

_BYTES = ("bytes", "bytes at the peak", "B")
_LEVEL = re.compile(r"[/.]")  # `Net_0/Block_3` of a trace, `blocks.3.attn` of a parameter
_LEAST = 1e-3  # of the peak: less cannot be seen


def build_flame(holders: Sequence[Holder], what: str) -> Flame | None:
    """Build the flame graph; None where no holder has more than categories. `what` names the holders."""
    shown = [holder for holder in holders if any(row.module or row.op for row in holder.account.rows)]
    if not shown:
        return None
    trees: dict[tuple[str, ...], FlameTree] = {(holder.name,): build_tree(holder.account) for holder in shown}
    return Flame(
        id="memory-flame",
        title="By category, module and op",
        keys=(what.capitalize(),),
        trees=trees,
        measures=(_BYTES,),
        label="Flame graph of the memory at the peak; the table below lists the largest blocks",
        whole="of the peak",
        caption=f"Blocks below {format_percent(_LEAST)} of the peak are omitted.",
        looks=[(name, fill.color) for name, fill in list_peak_categories(shown)],
        words=build_words_table("memory-flame-words", next(iter(trees.values())), _BYTES),
    )


def build_tree(account: MemoryAccount) -> FlameTree:
    """Build the tree of categories, their modules, and the ops of live memory."""
    sizes: dict[tuple[str, ...], int] = {}
    for row in account.rows:
        path = [row.category, *(part for part in _LEVEL.split(row.module) if part), *([row.op] if row.op else [])]
        for depth in range(1, len(path) + 1):
            sizes[*path[:depth],] = sizes.get((*path[:depth],), 0) + row.bytes
    kept = sorted(
        (path for path, size in sizes.items() if size >= _LEAST * account.peak_bytes),
        key=lambda path: (len(path), -sizes[path]),
    )
    places = {path: place for place, path in enumerate(kept)}
    labels: dict[tuple[str, str, str], int] = {}
    return FlameTree(
        label=tuple(labels.setdefault((path[-1], "", path[0]), len(labels)) for path in kept),
        labels=tuple(labels),
        parent=tuple(places.get(path[:-1], -1) for path in kept),
        values={_BYTES[0]: tuple(float(sizes[path]) for path in kept)},
    )
