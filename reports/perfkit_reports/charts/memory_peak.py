"""What fills the memory at the peak: a stacked bar for each holder."""

from collections.abc import Sequence

from perfkit import units
from perfkit.analysis.model.memory import MemoryShare
from perfkit_reports.charts.frame import Figure, Note, axis, byte_scale, hover, row_bars, rows, safe
from perfkit_reports.document.blocks import Block, Chart
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder, categories_at_peak


def chart(holders: Sequence[Holder], what: str, weight: Weight, words: Block | None) -> Chart | None:
    """None where no memory was recorded; `what` is what a holder is."""
    highest = max((holder.account.peak_bytes for holder in holders), default=0)
    if not highest:
        return None
    return Chart(
        id="memory-peak",
        weight=weight,
        figure=_figure(holders, highest),
        label=f"Memory at the peak by category and {what}; the balance below holds the same figures",
        title="At the peak",
        legend=[(name, fill.colour, fill.pattern) for name, fill in categories_at_peak(holders)],
        words=words,
    )


def _figure(holders: Sequence[Holder], highest: int) -> Figure:
    scale, unit = byte_scale(highest)
    traces = []
    for category, fill in categories_at_peak(holders):
        parts = [
            (holder.name, part.bytes / scale, _told(holder, part))
            for holder in holders
            for part in holder.account.categories
            if part.category == category
        ]
        traces.append(row_bars(fill, parts, name=safe(category)))
    drawn = rows(
        traces,
        [holder.name for holder in holders],
        [_total(holder, scale) for holder in holders],
        barmode="stack",
        margin={"l": 18, "r": 12, "t": 6, "b": 52},
        xaxis=axis(f"allocated at the peak ({unit})", range=[0, 1.22 * highest / scale], fixedrange=True),
    )
    # Beside the bar there would be no room on a narrow screen to say how a run ended.
    for label, holder in zip(drawn["layout"]["annotations"], holders, strict=False):
        if holder.account.failed:
            label["text"] += ": <i>out of memory</i>"
    return drawn


def _told(holder: Holder, part: MemoryShare) -> str:
    peak = holder.account.peak_bytes
    share = units.percent(part.bytes / peak if peak else 0.0)
    return hover(f"{holder.name}: {part.category}", f"{units.nbytes(part.bytes)}, {share} of the peak")


def _total(holder: Holder, scale: float) -> Note:
    peak, place = holder.account.peak_bytes, {"xanchor": "left", "align": "left", "xshift": 6, "showarrow": False}
    return {"x": peak / scale, "y": holder.name, "text": units.nbytes(peak), **place}
