"""Static figures for papers and slides, PNG and SVG, drawn by matplotlib without a display."""

import io
import math
from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from perfkit import units
from perfkit.analysis.result import Analysis
from perfkit_reports import cells
from perfkit_reports.bars import Bar
from perfkit_reports.figures.frame import byte_scale
from perfkit_reports.figures.memory import accounted
from perfkit_reports.figures.pareto import placed
from perfkit_reports.figures.roofline import shown_kinds, whole_step
from perfkit_reports.palette import NEUTRAL, legend
from perfkit_reports.plane import Plane
from perfkit_reports.roofs import limits, placeable, roofs
from perfkit_reports.variants import plane, time_bars, variant_styles

_WIDTH = 8.0  # inches
_DPI = 120


def images(analysis: Analysis) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) and so on, for every figure of a bench that there is data for."""
    yield from files("pareto", pareto(analysis))
    yield from files("roofline", roofline(plane(analysis)))
    yield from files("time-split", time_split(time_bars(analysis)))
    yield from files("memory-peak", memory_peak(analysis))


def files(name: str, figure: Figure | None) -> Iterator[tuple[str, bytes]]:
    """A figure as PNG and SVG; nothing where there is none."""
    if figure is not None:
        yield f"{name}.png", _saved(figure, "png")
        yield f"{name}.svg", _saved(figure, "svg")


def pareto(analysis: Analysis) -> Figure | None:
    """Throughput against peak memory, with the Pareto front."""
    points = placed(analysis)
    if not points:
        return None
    figure, axes = _axes(5.0)
    scale, unit = byte_scale(max(memory for _, memory, _ in points))
    styles = variant_styles(analysis)
    front = sorted((memory / scale, rate) for variant, memory, rate in points if variant.name in analysis.pareto)
    axes.plot([memory for memory, _ in front], [rate for _, rate in front], color=NEUTRAL, linestyle=":", zorder=1)
    for variant, memory, rate in points:
        style = styles[variant.name]
        axes.scatter([memory / scale], [rate], color=style.colour, marker=style.marker, s=80, zorder=2)
        axes.annotate(
            _plain(variant.name),
            (memory / scale, rate),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    axes.set_xlim(0, 1.15 * max(memory for _, memory, _ in points) / scale)
    axes.set_ylim(0, 1.15 * max(rate for *_, rate in points))
    axes.set_xlabel(f"peak memory ({unit})")
    axes.set_ylabel(_plain(cells.throughput_unit(points[0][0])))
    return figure


def roofline(plane: Plane) -> Figure | None:
    """Roofs, the whole steps of every series with arrows from their origins', the kernels or ops of those shown."""
    frame = limits(plane)
    if frame is None or not plane.points:
        return None
    figure, axes = _axes(5.6, left=1.05)
    for roof in roofs(plane):
        axes.plot(
            [roof.x0, roof.x1],
            [roof.y0, roof.y1],
            color=roof.colour,
            linewidth=1.6 if roof.measured else 1.0,
            linestyle="-" if roof.measured else "--",
        )
        place = (roof.x1, roof.y1) if roof.flat else (roof.x0, roof.y0)
        side = -1 if roof.below else 1
        axes.annotate(
            _plain(roof.label, 60),
            place,
            xytext=(-2 if roof.flat else 8, side * 3),
            textcoords="offset points",
            ha="right" if roof.flat else "left",
            va="top" if roof.below else "bottom",
            fontsize=7,
            color="#444444",
        )
    finest = shown_kinds(plane)[0]
    steps: dict[str, tuple[float, float]] = {}
    for series in plane.series:
        style = series.style
        some = series.points if series.shown else ()
        dots = [point for point in some if point.kind == finest and placeable(point) and frame.contain(point)]
        axes.scatter(
            [point.intensity for point in dots],
            [point.achieved for point in dots],
            s=[8 + 900 * max(0.0, point.share) for point in dots],
            color=style.colour,
            alpha=0.4,
            linewidths=0,
        )
        step = whole_step(series)
        if step is not None:
            steps[series.name] = (step.intensity, step.achieved)
            axes.scatter(
                *steps[series.name],
                color=style.colour,
                marker=style.marker,
                s=90,
                zorder=4,
                edgecolors="black",
                label=_plain(series.name),
            )
    for series in plane.series:
        origin = steps.get(series.origin)
        if origin is not None and series.name in steps:
            axes.annotate(
                "",
                steps[series.name],
                xytext=origin,
                arrowprops={"arrowstyle": "->", "color": series.style.colour},
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: units.flops_per_s(value))
    axes.set_xlim(frame.x0, frame.x1)
    axes.set_ylim(frame.y0, frame.y1)
    axes.set_xlabel("arithmetic intensity (FLOP/byte)")
    if steps:
        axes.legend(loc="lower right", fontsize=8, frameon=False)
    return figure


def time_split(bars: Sequence[Bar]) -> Figure | None:
    """Where time goes, stacked to 100 %."""
    shares = [(bar.name, {share.category: share.share * 100 for share in bar.shares}) for bar in bars]
    return _stacked(shares, "share of the step (%)")


def memory_peak(analysis: Analysis) -> Figure | None:
    """Memory at the peak by category."""
    accounts = accounted(analysis)
    if not accounts:
        return None
    scale, unit = byte_scale(max(account.peak_bytes for _, account in accounts))
    bars = [
        (variant.name, {part.category: part.bytes / scale for part in account.categories})
        for variant, account in accounts
    ]
    figure = _stacked(bars, f"allocated at the peak ({unit})")
    if figure is not None:
        for row, (_, account) in enumerate(accounts):
            figure.axes[0].annotate(
                f" {units.nbytes(account.peak_bytes)}", (account.peak_bytes / scale, row), va="center", fontsize=8
            )
        figure.axes[0].set_xlim(right=1.15 * max(account.peak_bytes for _, account in accounts) / scale)
    return figure


def _stacked(bars: list[tuple[str, dict[str, float]]], title: str) -> Figure | None:
    if not bars:
        return None
    categories = legend([list(parts) for _, parts in bars])
    columns = 4
    top = 0.15 + 0.22 * math.ceil(len(categories) / columns)
    left = 0.25 + 0.075 * max(len(_plain(name)) for name, _ in bars)
    figure, axes = _axes(0.6 + top + 0.42 * len(bars), left=left, top=top)
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
            label=_plain(category),
        )
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    axes.set_yticks(range(len(bars)), [_plain(name) for name, _ in bars])
    axes.invert_yaxis()
    axes.set_xlabel(title)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, fontsize=8, frameon=False)
    return figure


def _axes(height: float, *, left: float = 0.8, top: float = 0.15) -> tuple[Figure, Axes]:
    """A figure of `height` inches with one plot; margins in inches."""
    figure = Figure(figsize=(_WIDTH, height), dpi=_DPI)
    figure.subplots_adjust(left=left / _WIDTH, right=1 - 0.25 / _WIDTH, bottom=0.55 / height, top=1 - top / height)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _saved(figure: Figure, kind: str) -> bytes:
    """The figure's bytes. Margins are fixed beforehand: cropping to what was drawn would draw it twice."""
    buffer = io.BytesIO()
    canvas = FigureCanvasSVG(figure) if kind == "svg" else FigureCanvasAgg(figure)
    canvas.print_figure(buffer, format=kind)
    return buffer.getvalue()


def _plain(text: str, limit: int = 36) -> str:
    """Short, on one line, and with no dollar signs left for matplotlib to read as mathematics."""
    line = " ".join(text.split())
    return (line if len(line) <= limit else line[: limit - 1] + "…").replace("$", r"\$")
