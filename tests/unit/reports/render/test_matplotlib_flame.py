"""Flame graphs in print: blocks where a page has them."""

from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from perfkit_reports.document.blocks import Flame, FlameTree, Table
from perfkit_reports.document.document import Document
from perfkit_reports.render.images import render_images
from perfkit_reports.render.matplotlib_flame import draw_flame

LABELS = (("net", "", ""), ("mm", "", "GEMM"), ("relu", "", ""), ("old", "", ""))
NOW = FlameTree(labels=LABELS, parent=(-1, 0, 0), label=(0, 1, 2), values={"time": (0.010, 0.006, 0.004)})
CHANGED = FlameTree(
    labels=LABELS,
    parent=(-1, 0, 0, 0),
    label=(0, 1, 2, 3),
    values={"time": (0.010, 0.006, 0.004, 0.0)},
    before={"time": (0.019, 0.003, 0.006, 0.010)},
    gone=1,
)


def block(tree: FlameTree) -> Flame:
    return Flame(
        id="flame",
        keys=("By",),
        trees={("layers",): tree, ("phases",): NOW},
        measures=(("time", "time", "s"),),
        label="Flame graph",
        whole="of the step",
        looks=[("GEMM", "#0072B2")],
    )


def widths(figure: Figure) -> list[float]:
    """Of the whole width, a block each, in the order of drawing."""
    boxes = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    return [round((box.get_width() + 1) / (boxes[0].get_width() + 1), 3) for box in boxes]


def names(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_the_first_tree_is_drawn_below_its_whole() -> None:
    figure = draw_flame(block(NOW))
    assert names(figure) == ["everything, 10.0 ms", "net", "mm", "relu"]
    assert widths(figure) == [1.0, 1.0, 0.6, 0.4]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["GEMM"]


def test_a_tree_without_the_first_width_is_drawn_by_the_next() -> None:
    only = replace(block(NOW), measures=(("flops", "FLOPs", "FLOP"), ("time", "time", "s")))
    assert names(draw_flame(only))[0] == "everything, 10.0 ms"


def test_what_is_gone_is_hatched_and_as_wide_as_it_was() -> None:
    figure = draw_flame(block(CHANGED))
    assert names(figure) == ["everything, 10.0 ms", "net", "old (gone)", "mm", "relu"]
    assert widths(figure) == [1.0, 1.0, 0.5, 0.3, 0.2]
    hatched = [patch.get_hatch() for patch in figure.axes[0].patches]
    assert hatched == [None, None, "////", None, None]
    less, more = figure.axes[0].patches[4], figure.axes[0].patches[3]
    assert more.get_facecolor()[0] > more.get_facecolor()[2], "twice as long is reddish"
    assert less.get_facecolor()[0] < less.get_facecolor()[2], "shorter is bluish"


def test_it_is_among_the_images_of_a_document() -> None:
    words = Table(id="words", title="Words", columns=(), rows=())
    document = Document(
        kind="trace", title="t", headline="h", perfkit="1", created_at="2026", summary=(words, block(NOW)), sections=()
    )
    saved = dict(render_images(document))
    assert set(saved) == {"flame.png", "flame.svg"}
    assert saved["flame.png"].startswith(b"\x89PNG")


@pytest.mark.parametrize("tree", [NOW, CHANGED])
def test_blocks_that_are_too_narrow_to_see_are_left_out(tree: FlameTree) -> None:
    values = {"time": (10.0, 9.99, 0.01, *(0.0 for _ in range(tree.gone)))}
    narrow = FlameTree(labels=LABELS, parent=tree.parent, label=tree.label, values=values)
    assert "relu" not in names(draw_flame(block(narrow)))
