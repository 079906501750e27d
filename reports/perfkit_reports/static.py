"""Static figures for papers and slides, PNG and SVG, drawn by matplotlib without a display."""

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from perfkit import units
from perfkit.analysis.model.suite import Analysis
from perfkit_reports import cells, headline, memory_static
from perfkit_reports.bars import Bar
from perfkit_reports.charts.canvas import files, plain, plot, stacked
from perfkit_reports.charts.frame import byte_scale
from perfkit_reports.figures.pareto import placed
from perfkit_reports.figures.roofline import shown_kinds, whole_step
from perfkit_reports.holders import of_variants
from perfkit_reports.palette import NEUTRAL
from perfkit_reports.plane import Plane
from perfkit_reports.roofs import limits, placeable, roofs
from perfkit_reports.variants import plane, time_bars, variant_styles


def images(analysis: Analysis) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) and so on, for every figure of a bench that there is data for."""
    yield from files("pareto", pareto(analysis) if headline.compares(analysis) else None)
    yield from files("roofline", roofline(plane(analysis)))
    yield from files("time-split", time_split(time_bars(analysis)))
    yield from files("memory-peak", memory_static.memory_peak(of_variants(analysis)))


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


def roofline(plane: Plane) -> Figure | None:
    """Roofs, the whole steps of every series with arrows from their origins', the kernels or ops of those shown."""
    frame = limits(plane)
    if frame is None or not plane.points:
        return None
    figure, axes = plot(5.6, left=1.05)
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
            plain(roof.label, 60),
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
                label=plain(series.name),
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
    shares = [
        (bar.name, {share.category: share.share * 100 for share in bar.shares if share.seconds > 0}) for bar in bars
    ]
    return stacked(shares, "share of the step (%)")
