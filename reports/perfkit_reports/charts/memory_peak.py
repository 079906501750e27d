"""What fills the memory at the peak: a stacked bar for each holder."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perfkit import units
from perfkit_reports.charts.frame import (
    ROWS_AXIS,
    Figure,
    Trace,
    byte_scale,
    figure,
    hover,
    row_labels,
    rows_height,
    safe,
)
from perfkit_reports.document.blocks import Block, Chart
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder, categories_at_peak
from perfkit_reports.palette import bar_pattern

if TYPE_CHECKING:
    import matplotlib.figure


def chart(holders: Sequence[Holder], what: str, weight: Weight, words: Block | None) -> Chart | None:
    """None where no memory was recorded; `what` is what a holder is."""
    drawn = memory_peak(holders)
    if drawn is None:
        return None
    return Chart(
        id="memory-peak",
        weight=weight,
        figure=drawn,
        label=f"Memory at the peak by category and {what}; the balance below holds the same figures",
        title="At the peak",
        legend=[(name, fill.colour, fill.pattern) for name, fill in categories_at_peak(holders)],
        print=lambda: printed(holders),
        words=words,
    )


def memory_peak(holders: Sequence[Holder]) -> Figure | None:
    """None where no memory was recorded."""
    highest = max((holder.account.peak_bytes for holder in holders), default=0)
    if not highest:
        return None
    scale, unit = byte_scale(highest)
    traces: list[Trace] = []
    for category, fill in categories_at_peak(holders):
        parts = [
            (holder, part) for holder in holders for part in holder.account.categories if part.category == category
        ]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": safe(category),
                "y": [holder.name for holder, _ in parts],
                "x": [part.bytes / scale for _, part in parts],
                "width": 0.46,
                "marker": {"color": fill.colour, "pattern": bar_pattern(fill)},
                "hovertext": [
                    hover(
                        f"{holder.name}: {category}",
                        f"{units.nbytes(part.bytes)}, {units.percent(_share(part.bytes, holder))} of the peak",
                    )
                    for holder, part in parts
                ],
                "hoverinfo": "text",
            }
        )
    return figure(
        traces,
        barmode="stack",
        height=rows_height(len(holders)),
        margin={"l": 18, "r": 12, "t": 6, "b": 52},
        annotations=[*_names(holders), *_totals(holders, scale)],
        xaxis={
            "title": {"text": f"allocated at the peak ({unit})"},
            "range": [0, 1.22 * highest / scale],
            "fixedrange": True,
        },
        yaxis=ROWS_AXIS,
    )


def _names(holders: Sequence[Holder]) -> list[dict[str, Any]]:
    """Beside the bar there would be no room on a narrow screen to say how a run ended."""
    labels = row_labels([holder.name for holder in holders])
    for label, holder in zip(labels, holders, strict=True):
        if holder.account.failed:
            label["text"] += ": <i>out of memory</i>"
    return labels


def _totals(holders: Sequence[Holder], scale: float) -> list[dict[str, Any]]:
    return [
        {
            "x": holder.account.peak_bytes / scale,
            "y": holder.name,
            "text": units.nbytes(holder.account.peak_bytes),
            "xanchor": "left",
            "align": "left",
            "xshift": 6,
            "showarrow": False,
        }
        for holder in holders
    ]


def _share(amount: int, holder: Holder) -> float:
    return amount / holder.account.peak_bytes if holder.account.peak_bytes else 0.0


def printed(holders: Sequence[Holder]) -> "matplotlib.figure.Figure | None":
    """The same in print."""
    from perfkit_reports.charts.canvas import stacked

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
