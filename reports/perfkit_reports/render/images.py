"""The charts, bars, flame graphs and timelines of a document as PNG and SVG, named by their ids."""

import io
from collections.abc import Iterator

from matplotlib.figure import Figure

from perfkit_reports.charts import time_bars
from perfkit_reports.document.blocks import Bars, Chart, Flame, Timeline, within
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import plotted_flame, plotted_timeline
from perfkit_reports.render.plotted import plotted

_Picture = Chart | Bars | Flame | Timeline
_FORMATS = ("png", "svg")


def images(document: Document, most: Weight = Weight.DETAIL) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) and so on, for every chart of a weight up to `most`, those that are folded too."""
    for block in within(document.blocks):
        if isinstance(block, _Picture) and block.weight <= most:
            yield from ((f"{block.id}.{kind}", content) for kind, content in _saved(block, _FORMATS))


def png(block: _Picture) -> bytes:
    return next(content for _, content in _saved(block, ("png",)))


def _drawn(block: _Picture) -> Figure:
    if isinstance(block, Flame):
        return plotted_flame.plotted(block)
    if isinstance(block, Timeline):
        return plotted_timeline.plotted(block)
    return plotted(time_bars.chart(block))


def _saved(block: _Picture, kinds: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    drawn = _drawn(block)
    for kind in kinds:
        buffer = io.BytesIO()
        drawn.savefig(buffer, format=kind)
        yield kind, buffer.getvalue()
