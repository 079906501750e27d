"""A flame graph in print: the first of its trees, all of it, at its first width."""

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

_WIDTH, _ROW, _EDGE, _TEXT = 800, 22, 8, 11  # pixels of a page
_LETTER = 0.58  # of the size of the text
_LEAST = 2  # pixels: narrower blocks are not drawn
_NAMED = 30  # pixels: narrower blocks have no room for a name
_LEGEND_ROW, _LEGEND_COLUMNS = 20, 4
_NONE = "#f0f2f5"  # of what has no look, and of what did not change
_GONE = 0.35  # how strong the colour is of what is gone
_ALIKE = 0.01  # a change below this is none, as on the page


@dataclass(frozen=True)
class _FlameBlock:
    """Where a block lies: pixels from the left, and rows from the top. The whole has no node."""

    node: int | None
    left: float
    width: float
    depth: int


def draw_flame(block: Flame) -> Figure:
    """The tree as a page shows it at first."""
    tree = next(iter(block.trees.values()))
    measure, _, unit = next(known for known in block.measures if known[0] in tree.values)
    whole = sum(value for value, parent in zip(tree.values[measure], tree.parent, strict=True) if parent < 0)
    blocks = list(_place_blocks(tree, measure))
    marks = _build_legend(block, tree)
    top = _LEGEND_ROW * -(-len(marks) // _LEGEND_COLUMNS) + _EDGE
    depth = max(each.depth for each in blocks) + 1
    height = depth * _ROW + top + _EDGE
    figure = Figure(figsize=(_WIDTH / 100, height / 100), dpi=DPI)
    axes = figure.add_axes((_EDGE / _WIDTH, _EDGE / height, 1 - 2 * _EDGE / _WIDTH, depth * _ROW / height))
    axes.set(xlim=(0, _WIDTH - 2 * _EDGE), ylim=(depth * _ROW, 0))
    axes.set_axis_off()
    looks = dict(block.looks)
    for each in blocks:
        fill = _choose_fill(tree, measure, each.node, looks)
        gone = each.node is not None and tree.is_gone(each.node)
        box = Rectangle((each.left, each.depth * _ROW), each.width - 1, _ROW - 1, facecolor=fill, linewidth=0)
        if gone:
            box.set(hatch="////", edgecolor="white")
        axes.add_patch(box)
        if each.width > _NAMED:
            name = (
                f"everything, {format_amount(whole, unit)}"
                if each.node is None
                else _format_name(tree, each.node, gone)
            )
            room = max(1, int((each.width - 8) / (_LETTER * _TEXT)))
            place = (each.left + 4, (each.depth + 0.5) * _ROW)
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


def _format_name(tree: FlameTree, node: int, gone: bool) -> str:
    return tree.labels[tree.label[node]][0] + (GONE if gone else "")


def _build_legend(block: Flame, tree: FlameTree) -> list[Patch]:
    if not tree.before:
        return [
            Patch(facecolor=_lighten_color(colour, 0.5), label=strip_markup(name))
            for name, colour in build_flame_legend(block)
        ]
    marks = [Patch(facecolor=colour, label=f"{word} than before") for word, colour in (("more", MORE), ("less", LESS))]
    gone = Patch(
        facecolor=_lighten_color(LESS, _GONE), hatch="////", edgecolor="white", linewidth=0, label="gone, as it was"
    )
    return [*marks, *([gone] if tree.gone else [])]


def _place_blocks(tree: FlameTree, measure: str) -> Iterator[_FlameBlock]:
    """Those that can be seen, the whole first, siblings by their size."""
    sizes = [now + gone for now, gone in zip(tree.values[measure], tree.sum_gone(measure), strict=True)]
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent):
        below.setdefault(parent, []).append(node)
    whole = sum(sizes[node] for node in below[-1])

    def put(nodes: list[int], left: float, scale: float, depth: int) -> Iterator[_FlameBlock]:
        for node in sorted(nodes, key=lambda node: -sizes[node]):
            width = sizes[node] * scale
            if width >= _LEAST:
                yield _FlameBlock(node, left, width, depth)
                yield from put(below.get(node, []), left, scale, depth + 1)
            left += width

    width = _WIDTH - 2 * _EDGE
    yield _FlameBlock(None, 0.0, width, 0)
    yield from put(below[-1], 0.0, width / whole, 1)


def _choose_fill(tree: FlameTree, measure: str, node: int | None, looks: dict[str, str]) -> str:
    """The look of its kind of work; where something was before the change, the stronger the larger."""
    if node is None:
        return _NONE
    if not tree.before:
        colour = looks.get(tree.labels[tree.label[node]][2])
        return _lighten_color(colour, 0.5) if colour else _NONE
    if tree.is_gone(node):
        return _lighten_color(LESS, _GONE)
    now, was = tree.values[measure][node], tree.before.get(measure, [0.0] * len(tree.parent))[node]
    change = (now - was) / max(now, was, 1e-30)
    return _NONE if abs(change) < _ALIKE else _lighten_color(MORE if change > 0 else LESS, 0.15 + 0.6 * abs(change))


def _lighten_color(colour: str, strength: float) -> str:
    """With white, as the page mixes it."""
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(colour))
    return to_hex((red, green, blue))
