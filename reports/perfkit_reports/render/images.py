"""Renders charts, bars, flame graphs and timelines as PNG and SVG files named by their ids.

matplotlib draws them anew, because only a browser could draw what a page shows: kaleido 1 needs Chrome, kaleido 0.2
(2021) brings one (80 MB to download, 229 MB installed), and neither knows flame graphs and timelines, which are not
plotly's. The reports' charts use all of plotly's schema that `matplotlib_chart` and `matplotlib_traces` draw.
"""

import io
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from perfkit.core.optional_deps import make_missing_package_error
from perfkit_reports.charts import time_bars
from perfkit_reports.document.blocks import Bars, Chart, Flame, Timeline, walk_blocks
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Picture = Chart | Bars | Flame | Timeline
_FORMATS = ("png", "svg")
_PACKAGE = "matplotlib"


def can_render_images() -> bool:
    """True if matplotlib is installed; it is not imported here, which takes most of a second."""
    return find_spec(_PACKAGE) is not None


def require_images() -> None:
    """Raise an `UnavailableError` without matplotlib."""
    if not can_render_images():
        raise make_missing_package_error(_PACKAGE, "'perfkit[images]'")


def render_images(document: Document, most: Weight = Weight.DETAIL) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) for every chart up to the weight `most`, folded ones included."""
    for block in walk_blocks(document.blocks):
        if isinstance(block, _Picture) and block.weight <= most:
            yield from ((f"{block.id}.{kind}", content) for kind, content in _save_picture(block, _FORMATS))


def render_png(block: _Picture) -> bytes:
    return next(content for _, content in _save_picture(block, ("png",)))


def _draw_picture(block: _Picture) -> "Figure":
    require_images()
    from perfkit_reports.render import matplotlib_chart, matplotlib_flame, matplotlib_timeline

    if isinstance(block, Flame):
        return matplotlib_flame.draw_flame(block)
    if isinstance(block, Timeline):
        return matplotlib_timeline.draw_timeline(block)
    return matplotlib_chart.draw_chart(time_bars.build_chart(block))


def _save_picture(block: _Picture, kinds: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    figure = _draw_picture(block)
    for kind in kinds:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind)
        yield kind, buffer.getvalue()
