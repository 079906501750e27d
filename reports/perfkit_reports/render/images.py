"""Renders charts, bars, flame graphs and timelines as PNG and SVG files named by their ids.

matplotlib draws them anew, because only a browser could draw what a page shows: kaleido 1 needs Chrome, kaleido 0.2
(2021) brings one (80 MB to download, 229 MB installed), and neither knows flame graphs and timelines, which are not
plotly's. The reports' charts use all of plotly's schema that `matplotlib_chart` and `matplotlib_traces` draw.
"""

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
    """(`roofline.png`, content) for every chart up to the weight `most`, folded ones included."""
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
    figure = _draw_picture(block)
    for kind in kinds:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind)
        yield kind, buffer.getvalue()
