"""Allocated memory over a step: stacked areas by category, the peak, and above them phases and modules."""

from typing import TYPE_CHECKING, Any

from perfkit import units
from perfkit.analysis.model.memory import MemoryAccount
from perfkit_reports.charts import bands
from perfkit_reports.charts.frame import Figure, Trace, byte_scale, figure, safe, time_scale
from perfkit_reports.document.blocks import Chart
from perfkit_reports.holders import Holder, categories_over_time
from perfkit_reports.palette import NEUTRAL, Fill

if TYPE_CHECKING:
    import matplotlib.figure

_ROW = 23  # pixels of a row of bands
_PLOT = 330  # pixels of the areas
_MARGIN = {"l": 64, "r": 16, "t": 12, "b": 52}


def chart(holder: Holder, place: int) -> Chart | None:
    """None without a timeline of at least two moments."""
    drawn = memory_timeline(holder.account)
    if drawn is None:
        return None
    return Chart(
        id=f"memory-timeline-{place}",
        figure=drawn,
        label=f"Allocated memory of {holder.name} by category over time, with phases and modules above",
        title="Over time" if holder.account.peak_step is None else "Over one step",
        legend=[(name, fill.colour, fill.pattern) for name, fill in categories_over_time(holder.account)],
        print=lambda: printed(holder.account),
    )


def memory_timeline(account: MemoryAccount) -> Figure | None:
    """None without a timeline of at least two moments."""
    if len(account.timeline_s) < 2 or account.timeline_s[-1] <= 0:
        return None
    scale, unit = byte_scale(account.peak_bytes)
    seconds, time_unit = time_scale(account.timeline_s[-1])
    span_s = account.timeline_s[-1]
    times = [round(time / seconds, 4) for time in account.timeline_s]
    strip = bands.rows(account.bands, span_s)
    share = len(strip) * _ROW / (_PLOT + len(strip) * _ROW)
    peak = account.peak_bytes / scale
    areas = [_area(category, fill, times, account, scale, unit) for category, fill in categories_over_time(account)]
    return figure(
        [
            *areas,
            _total(account, times, scale, unit),
            _peak(account, seconds, scale),
            *bands.traces(strip, span_s, seconds),
        ],
        height=_PLOT + len(strip) * _ROW + _MARGIN["t"] + _MARGIN["b"],
        margin=_MARGIN,
        hovermode="x unified",
        barmode="overlay",
        uniformtext={"mode": "hide", "minsize": 9},
        shapes=_lines(account, seconds, peak),
        annotations=[_label(account, times[-1], seconds, peak)],
        xaxis={
            "title": {"text": f"{_since(account)} ({time_unit})"},
            "range": [0, times[-1]],
            "anchor": "y",
            "unifiedhovertitle": {"text": f"%{{x:.4~g}} {time_unit}"},
        },
        yaxis={
            "title": {"text": f"allocated ({unit})"},
            "range": [0, max(peak, _highest(account) / scale) * 1.24],
            "domain": [0, 1 - share - (0.02 if strip else 0)],
        },
        **_strip_axis(len(strip), share),
    )


def _area(category: str, fill: Fill, times: list[float], account: MemoryAccount, scale: float, unit: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "stackgroup": "all",
        "name": safe(category),
        "x": times,
        "y": [round(amount / scale, 4) for amount in account.timeline_categories[category]],
        "line": {"width": 0.6, "color": fill.colour, "shape": "hv"},
        "fillcolor": fill.colour,
        "fillpattern": {"shape": fill.pattern, "fgcolor": "#ffffff", "bgcolor": fill.colour, "solidity": 0.2},
        "hovertemplate": f"%{{y:.4~g}} {unit}<extra>{safe(category)}</extra>",
    }


def _total(account: MemoryAccount, times: list[float], scale: float, unit: str) -> Trace:
    """Nothing to see: the sum and the place in the step, for the hover text."""
    totals = _totals(account)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "total",
        "x": times,
        "y": [round(total / scale, 4) for total in totals],
        "line": {"width": 0, "shape": "hv", "color": NEUTRAL},
        "customdata": [safe(bands.inside(account.bands, time), 60) for time in account.timeline_s],
        "hovertemplate": f"%{{y:.4~g}} {unit}<br>%{{customdata}}<extra>total</extra>",
    }


def _peak(account: MemoryAccount, seconds: float, scale: float) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "peak",
        "x": [round(account.peak_s / seconds, 4)],
        "y": [account.peak_bytes / scale],
        "cliponaxis": False,
        "marker": {"symbol": "circle", "size": 9, "color": "#ffffff", "line": {"width": 2, "color": "#16181d"}},
        "hoverinfo": "skip",
    }


def _lines(account: MemoryAccount, seconds: float, peak: float) -> list[dict[str, Any]]:
    """The height of the peak across the plot, and its time from the axis up."""
    line = {"color": NEUTRAL, "width": 1.4, "dash": "dash"}
    time = account.peak_s / seconds
    return [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": peak, "y1": peak, "line": line},
        {"type": "line", "x0": time, "x1": time, "y0": 0, "y1": peak, "line": {**line, "dash": "dot"}},
    ]


def _label(account: MemoryAccount, end: float, seconds: float, peak: float) -> dict[str, Any]:
    """Beside the point, on the side where there is room."""
    time = account.peak_s / seconds
    when = [account.peak_phase, units.seconds(account.peak_s)]
    left = time < end / 2
    return {
        "x": time,
        "xanchor": "left" if left else "right",
        "xshift": 4 if left else -4,
        "y": peak,
        "yanchor": "bottom",
        "yshift": 2,
        "align": "left" if left else "right",
        "text": f"peak {units.nbytes(account.peak_bytes)}<br>{safe(', '.join(part for part in when if part))}",
        "showarrow": False,
    }


def _strip_axis(count: int, share: float) -> dict[str, Any]:
    if not count:
        return {}
    return {
        "yaxis2": {
            "domain": [1 - share, 1],
            "range": [-0.5, count - 0.5],
            "showticklabels": False,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        }
    }


def _since(account: MemoryAccount) -> str:
    if account.peak_step is None:
        return "time"
    return f"time in step {account.peak_step}"


def _totals(account: MemoryAccount) -> list[int]:
    return [sum(amounts) for amounts in zip(*account.timeline_categories.values(), strict=True)]


def _highest(account: MemoryAccount) -> int:
    return max(_totals(account), default=0)


def printed(account: MemoryAccount) -> "matplotlib.figure.Figure | None":
    """Stacked areas by category with the peak; None without a category."""
    from perfkit_reports.charts.canvas import plain, plot

    categories = categories_over_time(account)
    if not categories:
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
