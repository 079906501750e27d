"""Static figures for papers and slides, PNG and SVG, drawn by matplotlib without a display."""

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from perfkit.analysis.model.suite import Analysis
from perfkit_reports import cells, headline
from perfkit_reports.charts import memory_peak, roofline
from perfkit_reports.charts.canvas import files, plain, plot, stacked
from perfkit_reports.charts.frame import byte_scale
from perfkit_reports.document.blocks import Bar
from perfkit_reports.figures.pareto import placed
from perfkit_reports.holders import of_variants
from perfkit_reports.palette import NEUTRAL
from perfkit_reports.variants import plane, time_bars, variant_styles


def images(analysis: Analysis) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) and so on, for every figure of a bench that there is data for."""
    yield from files("pareto", pareto(analysis) if headline.compares(analysis) else None)
    yield from files("roofline", roofline.printed(plane(analysis)))
    yield from files("time-split", time_split(time_bars(analysis)))
    yield from files("memory-peak", memory_peak.printed(of_variants(analysis)))


def pareto(analysis: Analysis) -> Figure | None:
    """Throughput against peak memory, with the Pareto front."""
    points = placed(analysis)
    if not points:
        return None
    figure, axes = plot(5.0)
    scale, unit = byte_scale(max(memory for _, memory, _ in points))
    styles = variant_styles(analysis)
    front = sorted((memory / scale, rate) for variant, memory, rate in points if variant.name in analysis.pareto)
    axes.plot([memory for memory, _ in front], [rate for _, rate in front], color=NEUTRAL, linestyle=":", zorder=1)
    for variant, memory, rate in points:
        style = styles[variant.name]
        axes.scatter([memory / scale], [rate], color=style.colour, marker=style.marker, s=80, zorder=2)
        axes.annotate(
            plain(variant.name),
            (memory / scale, rate),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    axes.set_xlim(0, 1.15 * max(memory for _, memory, _ in points) / scale)
    axes.set_ylim(0, 1.15 * max(rate for *_, rate in points))
    axes.set_xlabel(f"peak memory ({unit})")
    axes.set_ylabel(plain(cells.throughput_unit(points[0][0])))
    return figure


def time_split(bars: Sequence[Bar]) -> Figure | None:
    """Where time goes, stacked to 100 %."""
    shares = [
        (bar.name, {share.category: share.share * 100 for share in bar.shares if share.seconds > 0}) for bar in bars
    ]
    return stacked(shares, "share of the step (%)")
