"""The charts and bars of a document as PNG and SVG, named by their ids."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from perfkit_reports.charts import time_bars
from perfkit_reports.charts.canvas import files, saved
from perfkit_reports.document.blocks import Bars, Chart, within
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight


def images(document: Document, most: Weight = Weight.DETAIL) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) and so on, for everything of a weight up to `most` that can be drawn."""
    for block in (block for block in drawable(document) if block.weight <= most):
        yield from files(block.id, figure(block))


def drawable(document: Document) -> Iterator[Chart | Bars]:
    """The charts and bars of a document, those that are folded among them."""
    return (block for block in within(document.blocks) if isinstance(block, Chart | Bars))


def figure(block: Chart | Bars) -> Figure | None:
    """None where there is nothing to draw, or no way to draw it in print."""
    chart = time_bars.chart(block) if isinstance(block, Bars) else block
    return chart.print() if chart.print else None


def png(block: Chart | Bars) -> bytes | None:
    drawn = figure(block)
    return None if drawn is None else saved(drawn, "png")
