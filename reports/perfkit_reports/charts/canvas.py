"""What static figures share: a canvas without a display, stacked bars, files of PNG and SVG."""

import io
import math
from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from perfkit_reports.palette import legend

_WIDTH = 8.0  # inches
_DPI = 120


def files(name: str, figure: Figure | None) -> Iterator[tuple[str, bytes]]:
    """A figure as PNG and SVG; nothing where there is none."""
    if figure is not None:
        yield f"{name}.png", saved(figure, "png")
        yield f"{name}.svg", saved(figure, "svg")


def stacked(bars: list[tuple[str, dict[str, float]]], title: str) -> Figure | None:
    """A stacked bar for each (name, amount by category); None where there is none."""
    if not bars:
        return None
    categories = legend([list(parts) for _, parts in bars])
    columns = 4
    top = 0.15 + 0.22 * math.ceil(len(categories) / columns)
    left = 0.25 + 0.075 * max(len(plain(name)) for name, _ in bars)
    figure, axes = plot(0.6 + top + 0.42 * len(bars), left=left, top=top)
    ends = [0.0] * len(bars)
    for category, fill in categories:
        widths = [parts.get(category, 0.0) for _, parts in bars]
        axes.barh(
            range(len(bars)),
            widths,
            left=ends,
            height=0.62,
            color=fill.colour,
            hatch=fill.pattern * 3,
            edgecolor="white",
            linewidth=0.4,
            label=plain(category),
        )
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    axes.set_yticks(range(len(bars)), [plain(name) for name, _ in bars])
    axes.invert_yaxis()
    axes.set_xlabel(title)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, fontsize=8, frameon=False)
    return figure


def plot(height: float, *, left: float = 0.8, top: float = 0.15) -> tuple[Figure, Axes]:
    """A figure of `height` inches with one plot; margins in inches."""
    figure = Figure(figsize=(_WIDTH, height), dpi=_DPI)
    figure.subplots_adjust(left=left / _WIDTH, right=1 - 0.25 / _WIDTH, bottom=0.55 / height, top=1 - top / height)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def saved(figure: Figure, kind: str) -> bytes:
    """The figure's bytes. Margins are fixed beforehand: cropping to what was drawn would draw it twice."""
    buffer = io.BytesIO()
    canvas = FigureCanvasSVG(figure) if kind == "svg" else FigureCanvasAgg(figure)
    canvas.print_figure(buffer, format=kind)
    return buffer.getvalue()


def plain(text: str, limit: int = 36) -> str:
    """Short, on one line, and with no dollar signs left for matplotlib to read as mathematics."""
    line = " ".join(text.split())
    return (line if len(line) <= limit else line[: limit - 1] + "…").replace("$", r"\$")
