"""Trees of work as blocks to draw, and the largest of them in words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfkit.analysis.model.step import (
    ABOVE,
    BY_LAYER,
    BY_MODULE,
    BY_PHASE,
    BY_STACK,
    BYTES,
    CRITICAL,
    FLOPS,
    FRAME,
    MODULE,
    OP,
    PHASE,
    TIME,
    FlameGraph,
)
from perfkit.analysis.trace.idle.idle_gaps import format_frame
from perfkit.analysis.trace.work.kernel_class import classify_work
from perfkit.core import units
from perfkit_reports.cells import make_share_cell
from perfkit_reports.document import blocks
from perfkit_reports.document.blocks import FlameTree, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.names import shorten_kernel
from perfkit_reports.palette import WORK
from perfkit_reports.selection import make_key

BY = {BY_LAYER: "layers", BY_MODULE: "modules", BY_STACK: "Python stack", BY_PHASE: "phases"}
MEASURES = (
    (TIME, "time", "s"),
    (CRITICAL, "time on the critical path", "s"),
    (ABOVE, "time above the roof", "s"),
    (FLOPS, "FLOPs", "FLOP"),
    (BYTES, "bytes moved", "B"),
)
GONE = " (gone)"
_LARGEST = 12  # blocks in the table
_LEAST = 0.02  # of the whole, for blocks in the table
_LONGEST = 200  # characters of a block's name


def build_flame(
    trees: Mapping[tuple[str, ...], FlameTree], keys: tuple[str, ...], name: str, caption: str, whole: str
) -> blocks.Flame | None:
    """The block of some trees; None where none has anything to show."""
    trees = {of: tree for of, tree in trees.items() if tree.parent and tree.values}
    if not trees:
        return None
    known = {measure for tree in trees.values() for measure in tree.values}
    used = {work for tree in trees.values() for _, _, work in tree.labels}
    return blocks.Flame(
        id=name,
        keys=keys,
        trees=trees,
        measures=tuple(measure for measure in MEASURES if measure[0] in known),
        label="Flame graph; the table below lists the largest blocks",
        whole=whole,
        caption=caption,
        looks=[(work.name, work.color) for work in WORK.values() if work.name in used],
        words=build_words_table(f"{name}-words", next(iter(trees.values())), MEASURES[0]),
    )


def build_tree(now: FlameGraph, before: FlameGraph | None = None) -> FlameTree:
    """Build the blocks of a tree; with an earlier tree, their earlier sizes and the removed ones."""
    labels: dict[tuple[str, str, str], int] = {}
    steps = list_paths(now)
    then = dict(zip(list_paths(before), range(len(before.name)), strict=True)) if before else {}
    known = set(steps)
    gone = [path for path in then if path not in known]
    steps += gone
    place = {path: number for number, path in enumerate(steps)}
    label = tuple(labels.setdefault(_build_label(path), len(labels)) for path in steps)
    return FlameTree(
        labels=tuple(labels),
        parent=tuple(place.get(path[:-1], -1) for path in steps),
        label=label,
        values={measure: (*values, *(0.0 for _ in gone)) for measure, values in now.values.items()},
        before={
            measure: tuple(values[then[path]] if path in then else 0.0 for path in steps)
            for measure, values in (before.values.items() if before else ())
        },
        gone=len(gone),
    )


Path = tuple[tuple[str, str], ...]  # kinds and names, the outermost first


def list_paths(flame: FlameGraph) -> list[Path]:
    """That of each node."""
    paths: list[Path] = []
    for parent, name, kind in zip(flame.parent, flame.name, flame.kind, strict=True):
        step = (flame.kinds[kind], flame.names[name])
        paths.append((*(paths[parent] if parent >= 0 else ()), step))
    return paths


def _build_label(path: Path) -> tuple[str, str, str]:
    """The label of a block, the key that selects it, and its type of work."""
    kind, name = path[-1]
    if kind == MODULE:
        nowhere = name.endswith("_*") or name == "no module"
        return name, "" if nowhere else make_key(kind, "/".join(step for _, step in path)), ""
    if kind == FRAME:
        return format_frame(name), "", ""
    if kind == PHASE:
        return name, make_key(kind, name), ""
    op = next((step for of, step in reversed(path[:-1]) if of == OP), "")
    work = classify_work(op, name)
    return shorten_kernel(name, _LONGEST), make_key(kind, name), WORK[work].name


@dataclass(frozen=True)
class _BlockLine:
    """A block in words: its depth, name, size and earlier size."""

    depth: int
    name: str
    value: float
    share: float
    before: float


def build_words_table(name: str, shown: FlameTree, measure: tuple[str, str, str]) -> Table | None:
    """Build the table of the largest blocks, each below its parent."""
    lines = _build_lines(shown, measure[0])
    before: Column[_BlockLine] = Column(
        "Before", lambda line: Cell(format_amount(line.before, measure[2]), value=line.before)
    )
    columns: Sequence[Column[_BlockLine]] = (
        Column("Block", lambda line: Cell("· " * line.depth + line.name, value=line.name), numeric=False, code=True),
        Column(measure[1].capitalize(), lambda line: Cell(format_amount(line.value, measure[2]), value=line.value)),
        *([before] if shown.before else []),
        Column("Share", lambda line: make_share_cell(line.share), meter=True),
    )
    title = "Largest blocks"
    return Table(id=name, title=title, columns=columns, rows=lines, what="block") if lines else None


def format_amount(value: float, unit: str) -> str:
    """A value in the unit of its measure."""
    return {"s": units.format_seconds, "FLOP": units.format_flops, "B": units.format_bytes}[unit](value)


def _build_lines(shown: FlameTree, measure: str) -> list[_BlockLine]:
    values = shown.values.get(measure, ())
    whole = sum(value for value, parent in zip(values, shown.parent, strict=False) if parent < 0)
    if not whole:
        return []
    before = shown.before.get(measure, [0.0] * len(values))
    sizes = [now + gone for now, gone in zip(values, shown.sum_gone(measure), strict=True)]
    largest = sorted((place for place, size in enumerate(sizes) if size >= _LEAST * whole), key=lambda at: -sizes[at])
    below: dict[int, list[int]] = {}
    for place in largest[:_LARGEST]:
        below.setdefault(shown.parent[place], []).append(place)

    def walk(parent: int, depth: int) -> Iterator[_BlockLine]:
        for place in below.get(parent, ()):
            name = shown.labels[shown.label[place]][0] + (GONE if shown.is_gone(place) else "")
            yield _BlockLine(depth, name, values[place], values[place] / whole, before[place])
            yield from walk(place, depth + 1)

    return list(walk(-1, 0))
