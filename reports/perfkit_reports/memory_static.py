"""Static figures of memory: the peak by category, and the course over a step."""

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from perfkit import units
from perfkit.analysis.memory.result import MemoryAnalysis
from perfkit_reports.charts.canvas import files, plain, plot, stacked
from perfkit_reports.charts.frame import byte_scale, time_scale
from perfkit_reports.holders import Holder, categories_over_time, of_devices
from perfkit_reports.palette import NEUTRAL


def images(analysis: MemoryAnalysis) -> Iterator[tuple[str, bytes]]:
    """(`memory-peak.png`, content) and so on, for every figure there is data for."""
    holders = of_devices(analysis.accounts)
    yield from files("memory-peak", memory_peak(holders))
    for place, holder in enumerate(holders):
        yield from files(f"memory-timeline-{place}", memory_timeline(holder))


def memory_peak(holders: Sequence[Holder]) -> Figure | None:
    """Memory at the peak by category; None where nothing was recorded."""
    highest = max((holder.account.peak_bytes for holder in holders), default=0)
    if not highest:
        return None
    scale, unit = byte_scale(highest)
    bars = [
        (holder.name, {part.category: part.bytes / scale for part in holder.account.categories}) for holder in holders
    ]
    figure = stacked(bars, f"allocated at the peak ({unit})")
    if figure is not None:
        for row, holder in enumerate(holders):
            peak = holder.account.peak_bytes
            figure.axes[0].annotate(f" {units.nbytes(peak)}", (peak / scale, row), va="center", fontsize=8)
        figure.axes[0].set_xlim(right=1.15 * highest / scale)
    return figure


def memory_timeline(holder: Holder) -> Figure | None:
    """Stacked areas by category with the peak; None without a timeline."""
    account = holder.account
    categories = categories_over_time(account)
    if len(account.timeline_s) < 2 or not categories:
        return None
    figure, axes = plot(4.2, top=0.7)
    scale, unit = byte_scale(account.peak_bytes)
    seconds, time_unit = time_scale(account.timeline_s[-1])
    areas = axes.stackplot(
        [time / seconds for time in account.timeline_s],
        *([amount / scale for amount in account.timeline_categories[name]] for name, _ in categories),
        colors=[fill.colour for _, fill in categories],
        labels=[plain(name) for name, _ in categories],
        step="post",
        linewidth=0,
    )
    for area, (_, fill) in zip(areas, categories, strict=True):
        area.set(hatch=fill.pattern * 3, edgecolor="white")
    peak = account.peak_bytes / scale
    axes.axhline(peak, color=NEUTRAL, linestyle="--", linewidth=1)
    axes.plot([account.peak_s / seconds], [peak], marker="o", color="white", markeredgecolor="black", clip_on=False)
    axes.annotate(
        f"peak {units.nbytes(account.peak_bytes)}", (0.0, peak), xytext=(4, 3), textcoords="offset points", fontsize=8
    )
    axes.set_xlim(0, account.timeline_s[-1] / seconds)
    axes.set_ylim(0, peak * 1.12)
    axes.set_xlabel(f"time ({time_unit})")
    axes.set_ylabel(f"allocated ({unit})")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=8, frameon=False)
    return figure
