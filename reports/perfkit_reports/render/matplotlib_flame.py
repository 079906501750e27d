"""Draws a static flame graph: the first tree, fully zoomed out, at its first width."""

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from perfkit_reports.charts.flame import GONE, format_amount
from perfkit_reports.document.blocks import Flame, FlameTree
from perfkit_reports.palette import LESS, MORE
from perfkit_reports.render.flame_sheet import build_flame_legend
from perfkit_reports.render.matplotlib_traces import DPI, POINT, strip_markup

_WIDTH, _ROW, _EDGE, _TEXT = 800, 22, 8, 11  # page pixels
_LETTER = 0.58  # relative to the text size
_LEAST = 2  # pixels; narrower blocks are omitted
_NAMED = 30  # pixels; narrower blocks have no name
_LEGEND_ROW, _LEGEND_COLUMNS = 20, 4
_NONE = "#f0f2f5"  # color of blocks without a look, and of unchanged blocks
_GONE = 0.35  # color strength of removed blocks
_ALIKE = 0.01  # smaller changes count as none, as on the page


@dataclass(frozen=True)
class _FlameBlock:
    """Position of a block: pixels from the left, rows from the top. The root has no node."""

    node: int | None
    left: float
    width: float
    depth: int


def draw_flame(block: Flame) -> Figure:
    """The tree as a page shows it on load."""
    tree = next(iter(block.trees.values()))
    measure, _, unit = next(measure_row for measure_row in block.measures if measure_row[0] in tree.values)
    root = sum(value for value, parent in zip(tree.values[measure], tree.parent, strict=True) if parent < 0)
    blocks = list(_place_blocks(tree, measure))
    marks = _build_legend(block, tree)
    top = _LEGEND_ROW * -(-len(marks) // _LEGEND_COLUMNS) + _EDGE
    depth = max(placed.depth for placed in blocks) + 1
    height = depth * _ROW + top + _EDGE
    figure = Figure(figsize=(_WIDTH / 100, height / 100), dpi=DPI)
    axes = figure.add_axes((_EDGE / _WIDTH, _EDGE / height, 1 - 2 * _EDGE / _WIDTH, depth * _ROW / height))
    axes.set(xlim=(0, _WIDTH - 2 * _EDGE), ylim=(depth * _ROW, 0))
    axes.set_axis_off()
    looks = dict(block.looks)
    for placed in blocks:
        fill = _choose_fill(tree, measure, placed.node, looks)
        is_gone = placed.node is not None and tree.is_gone(placed.node)
        box = Rectangle((placed.left, placed.depth * _ROW), placed.width - 1, _ROW - 1, facecolor=fill, linewidth=0)
        if is_gone:
            box.set(hatch="////", edgecolor="white")
        axes.add_patch(box)
        if placed.width > _NAMED:
            name = (
                f"everything, {format_amount(root, unit)}"
                if placed.node is None
                else _format_name(tree, placed.node, is_gone)
            )
            room = max(1, int((placed.width - 8) / (_LETTER * _TEXT)))
            place = (placed.left + 4, (placed.depth + 0.5) * _ROW)
            axes.text(
                *place,
                strip_markup(name, room),
                fontsize=_TEXT * POINT,
                verticalalignment="center",
                clip_path=box,
                clip_on=True,
            )
    look = {"fontsize": _TEXT * POINT, "frameon": False, "ncols": _LEGEND_COLUMNS, "borderaxespad": 0.3}
    figure.legend(handles=marks, loc="upper center", **look)
    return figure


def _format_name(tree: FlameTree, node: int, is_gone: bool) -> str:
    return tree.labels[tree.label[node]][0] + (GONE if is_gone else "")


def _build_legend(block: Flame, tree: FlameTree) -> list[Patch]:
    if not tree.before:
        return [
            Patch(facecolor=_lighten_color(color, 0.5), label=strip_markup(name))
            for name, color in build_flame_legend(block)
        ]
    marks = [Patch(facecolor=color, label=f"{word} than before") for word, color in (("more", MORE), ("less", LESS))]
    removed_mark = Patch(
        facecolor=_lighten_color(LESS, _GONE),
        hatch="////",
        edgecolor="white",
        linewidth=0,
        label="gone (previous width)",
    )
    return [*marks, *([removed_mark] if tree.gone else [])]


def _place_blocks(tree: FlameTree, measure: str) -> Iterator[_FlameBlock]:
    """Visible blocks, the root first, siblings by size."""
    sizes = [values + removed for values, removed in zip(tree.values[measure], tree.sum_gone(measure), strict=True)]
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent):
        below.setdefault(parent, []).append(node)
    root = sum(sizes[node] for node in below[-1])

    def put(nodes: list[int], x: float, scale: float, depth: int) -> Iterator[_FlameBlock]:
        for node in sorted(nodes, key=lambda node: -sizes[node]):
            width = sizes[node] * scale
            if width >= _LEAST:
                yield _FlameBlock(node, x, width, depth)
                yield from put(below.get(node, []), x, scale, depth + 1)
            x += width

    width = _WIDTH - 2 * _EDGE
    yield _FlameBlock(None, 0.0, width, 0)
    yield from put(below[-1], 0.0, width / root, 1)


def _choose_fill(tree: FlameTree, measure: str, node: int | None, looks: dict[str, str]) -> str:
    """Color by kind of work; in comparisons by change, stronger for larger changes."""
    if node is None:
        return _NONE
    if not tree.before:
        color = looks.get(tree.labels[tree.label[node]][2])
        return _lighten_color(color, 0.5) if color else _NONE
    if tree.is_gone(node):
        return _lighten_color(LESS, _GONE)
    after, before = tree.values[measure][node], tree.before.get(measure, [0.0] * len(tree.parent))[node]
    change = (after - before) / max(after, before, 1e-30)
    return _NONE if abs(change) < _ALIKE else _lighten_color(MORE if change > 0 else LESS, 0.15 + 0.6 * abs(change))


def _lighten_color(color: str, strength: float) -> str:
    """Mix with white, as on the page."""
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(color))
    return to_hex((red, green, blue))
