"""Allocated memory over a step: stacked areas by category, the peak, and above them phases and modules."""

from typing import Any

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core import units
from perfkit_reports.charts import bands, frame
from perfkit_reports.charts.frame import (
    Figure,
    Note,
    Trace,
    build_axis,
    build_scatter,
    choose_byte_scale,
    choose_time_scale,
    escape_text,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.holders import Holder, list_timeline_categories
from perfkit_reports.palette import NEUTRAL, Fill
from perfkit_reports.selection import make_memory_key

_ROW = 23  # pixels of a row of bands
_PLOT = 330  # pixels of the areas
_OF_STEP = "% of the step"
_MARGIN = {"l": 64, "r": 16, "t": 12, "b": 52}


def build_chart(holder: Holder, place: int) -> Chart | None:
    """Build the chart; None without a timeline of at least two moments."""
    account = holder.account
    if len(account.timeline_s) < 2 or account.timeline_s[-1] <= 0:
        return None
    return Chart(
        id=f"memory-timeline-{place}",
        figure=_build_figure(account),
        label=f"Allocated memory of {holder.name} by category over time, with phases and modules above",
        title="Over time" if account.peak_step is None else "Over one step",
        legend=[(name, fill.color, fill.pattern) for name, fill in list_timeline_categories(account)],
    )


def _build_figure(account: MemoryAccount) -> Figure:
    scale, unit = choose_byte_scale(account.peak_bytes)
    seconds, time_unit = _choose_time_unit(account)
    span_s = account.timeline_s[-1]
    times = [round(time / seconds, 4) for time in account.timeline_s]
    strip = bands.build_band_rows(account.bands, span_s)
    share = len(strip) * _ROW / (_PLOT + len(strip) * _ROW)
    peak = account.peak_bytes / scale
    areas = [
        _build_area(category, fill, times, account, scale, unit) for category, fill in list_timeline_categories(account)
    ]
    line = {"color": NEUTRAL, "width": 1.4, "dash": "dash"}
    at = account.peak_s / seconds
    up_to_peak = {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": peak, "line": {**line, "dash": "dot"}}
    return frame.build_figure(
        [
            *areas,
            _build_total(account, times, scale, unit),
            build_scatter(
                "markers", [round(at, 4)], [peak], name="peak", cliponaxis=False, marker={**frame.POINT, "size": 9}
            ),
            *bands.build_band_traces(strip, span_s, seconds),
        ],
        height=_PLOT + len(strip) * _ROW + _MARGIN["t"] + _MARGIN["b"],
        margin=_MARGIN,
        hovermode="x unified",
        barmode="overlay",
        uniformtext={"mode": "hide", "minsize": 9},
        shapes=[frame.build_horizontal_line(peak, line), up_to_peak],
        annotations=[_build_peak_label(account, times[-1], seconds, peak, time_unit)],
        xaxis=build_axis(
            _format_axis_title(account, time_unit),
            range=[0, times[-1]],
            anchor="y",
            unifiedhovertitle={"text": f"%{{x:.4~g}} {time_unit}" if account.has_times else "event %{x:d}"},
        ),
        yaxis=build_axis(
            f"allocated ({unit})",
            range=[0, max(peak, max(_compute_totals(account), default=0) / scale) * 1.24],
            domain=[0, 1 - share - (0.02 if strip else 0)],
        ),
        **_build_strip_axis(len(strip), share),
    )


def _choose_time_unit(account: MemoryAccount) -> tuple[float, str]:
    """Seconds of a unit of time and its name. Of a step its share: the memory pass has a clock of its own."""
    if not account.has_times:
        return 1e-9, ""
    if account.peak_step is not None:
        return account.timeline_s[-1] / 100, _OF_STEP
    return choose_time_scale(account.timeline_s[-1])


def _build_area(
    category: str, fill: Fill, times: list[float], account: MemoryAccount, scale: float, unit: str
) -> Trace:
    return build_scatter(
        "lines",
        times,
        [round(amount / scale, 4) for amount in account.timeline_categories[category]],
        stackgroup="all",
        name=escape_text(category),
        meta={"key": make_memory_key(category)},
        line={"width": 0.6, "color": fill.color, "shape": "hv"},
        fillcolor=fill.color,
        fillpattern={"shape": fill.pattern, "fgcolor": "#ffffff", "bgcolor": fill.color, "solidity": 0.2},
        hoverinfo="all",
        hovertemplate=f"%{{y:.4~g}} {unit}<extra>{escape_text(category)}</extra>",
    )


def _build_total(account: MemoryAccount, times: list[float], scale: float, unit: str) -> Trace:
    """Nothing to see: the sum and the place in the step, for the hover text."""
    return build_scatter(
        "lines",
        times,
        [round(total / scale, 4) for total in _compute_totals(account)],
        name="total",
        line={"width": 0, "shape": "hv", "color": NEUTRAL},
        customdata=[escape_text(bands.describe_position(account.bands, time), 60) for time in account.timeline_s],
        hoverinfo="all",
        hovertemplate=f"%{{y:.4~g}} {unit}<br>%{{customdata}}<extra>total</extra>",
    )


def _build_peak_label(account: MemoryAccount, end: float, seconds: float, peak: float, unit: str) -> Note:
    """Place the label next to the point, on the side with room."""
    time = account.peak_s / seconds
    at = f"{time:.0f} {unit}" if unit == _OF_STEP else units.format_seconds(account.peak_s)
    when = [account.peak_phase, at if account.has_times else ""]
    side, away = ("left", 4) if time < end / 2 else ("right", -4)
    return {
        "x": time,
        "xanchor": side,
        "xshift": away,
        "y": peak,
        "yanchor": "bottom",
        "yshift": 2,
        "align": side,
        "text": f"peak {units.format_bytes(account.peak_bytes)}<br>{escape_text(', '.join(filter(None, when)))}",
        "showarrow": False,
    }


def _build_strip_axis(count: int, share: float) -> dict[str, Any]:
    if not count:
        return {}
    bare = {"showticklabels": False, "showgrid": False, "zeroline": False, "fixedrange": True}
    return {"yaxis2": {"domain": [1 - share, 1], "range": [-0.5, count - 0.5], **bare}}


def _format_axis_title(account: MemoryAccount, unit: str) -> str:
    step = "" if account.peak_step is None else f" in step {account.peak_step}"
    return f"time{step} ({unit})" if account.has_times else f"calls, allocations and frees{step}, one after the other"


def _compute_totals(account: MemoryAccount) -> list[int]:
    return [sum(amounts) for amounts in zip(*account.timeline_categories.values(), strict=True)]
