"""The charts and bars of a document as PNG and SVG, named by their ids."""

import io
from collections.abc import Iterator

from perfkit_reports.charts import time_bars
from perfkit_reports.document.blocks import Bars, Chart, within
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.render.plotted import plotted

_FORMATS = ("png", "svg")


def images(document: Document, most: Weight = Weight.DETAIL) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) and so on, for every chart of a weight up to `most`, those that are folded too."""
    for block in within(document.blocks):
        if isinstance(block, Chart | Bars) and block.weight <= most:
            yield from ((f"{block.id}.{kind}", content) for kind, content in _saved(block, _FORMATS))


def png(block: Chart | Bars) -> bytes:
    return next(content for _, content in _saved(block, ("png",)))


def _saved(block: Chart | Bars, kinds: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    drawn = plotted(time_bars.chart(block))
    for kind in kinds:
        buffer = io.BytesIO()
        drawn.savefig(buffer, format=kind)
        yield kind, buffer.getvalue()
