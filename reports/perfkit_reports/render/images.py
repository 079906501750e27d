"""The charts, bars, flame graphs and timelines of a document as PNG and SVG, named by their ids."""

import io
from collections.abc import Iterator

from matplotlib.figure import Figure

from perfkit_reports.charts import time_bars
from perfkit_reports.document.blocks import Bars, Chart, Flame, Timeline, walk_blocks
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import matplotlib_flame, matplotlib_timeline
from perfkit_reports.render.matplotlib_chart import draw_chart

_Picture = Chart | Bars | Flame | Timeline
_FORMATS = ("png", "svg")


def render_images(document: Document, most: Weight = Weight.DETAIL) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) and so on, for every chart of a weight up to `most`, those that are folded too."""
    for block in walk_blocks(document.blocks):
        if isinstance(block, _Picture) and block.weight <= most:
            yield from ((f"{block.id}.{kind}", content) for kind, content in _save_picture(block, _FORMATS))


def render_png(block: _Picture) -> bytes:
    return next(content for _, content in _save_picture(block, ("png",)))


def _draw_picture(block: _Picture) -> Figure:
    if isinstance(block, Flame):
        return matplotlib_flame.draw_flame(block)
    if isinstance(block, Timeline):
        return matplotlib_timeline.draw_timeline(block)
    return draw_chart(time_bars.build_chart(block))


def _save_picture(block: _Picture, kinds: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    drawn = _draw_picture(block)
    for kind in kinds:
        buffer = io.BytesIO()
        drawn.savefig(buffer, format=kind)
        yield kind, buffer.getvalue()
