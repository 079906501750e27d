"""Where time goes: one bar per variant, rank, step or stream, stacked to 100 %."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfkit import units
from perfkit_reports.charts.frame import ROWS_AXIS, Figure, Trace, figure, hover, row_labels, rows_height, safe
from perfkit_reports.document.blocks import Bar, Bars, Chart
from perfkit_reports.palette import bar_pattern, category_fills, legend, ordered_categories
from perfkit_reports.wording import bounded

if TYPE_CHECKING:
    import matplotlib.figure


def chart(block: Bars) -> Chart:
    """The block as a chart, interactive and printed."""
    return Chart(
        id=block.id,
        weight=block.weight,
        figure=time_split(block.bars, block.whole) or {},
        label=block.label,
        title=block.title,
        caption=block.caption,
        legend=[(name, fill.colour, fill.pattern) for name, fill in legend([bar.categories for bar in block.bars])],
        print=lambda: printed(block),
    )


def time_split(bars: Sequence[Bar], whole: str = "of the step") -> Figure | None:
    """None without bars; `whole` says in hover texts what 100 % is."""
    if not bars:
        return None
    categories = ordered_categories([bar.categories for bar in bars])
    fills = category_fills(categories)
    traces: list[Trace] = []
    for category in categories:
        parts = [(bar, share) for bar in bars for share in bar.shares if share.category == category]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": safe(category),
                "y": [bar.name for bar, _ in parts],
                "x": [share.share * 100 for _, share in parts],
                "width": 0.46,
                "marker": {"color": fills[category].colour, "pattern": bar_pattern(fills[category])},
                "text": [units.percent(share.share, 0) if share.share >= 0.06 else "" for _, share in parts],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "insidetextfont": {"weight": 600},
                "textangle": 0,
                "hovertext": [
                    hover(
                        f"{bar.name}: {category}",
                        f"{bounded(units.percent(share.share), share.bound)} {whole}, {units.seconds(share.seconds)}",
                    )
                    for bar, share in parts
                ],
                "hoverinfo": "text",
            }
        )
    return figure(
        traces,
        barmode="stack",
        height=rows_height(len(bars)),
        margin={"l": 18, "r": 24, "t": 6, "b": 40},
        annotations=row_labels([bar.name for bar in bars]),
        xaxis={"range": [0, 100], "ticksuffix": " %", "ticklabeloverflow": "allow", "fixedrange": True},
        yaxis=ROWS_AXIS,
    )


def printed(block: Bars) -> "matplotlib.figure.Figure | None":
    from perfkit_reports.charts.canvas import stacked

    shares = [
        (bar.name, {share.category: share.share * 100 for share in bar.shares if share.seconds > 0})
        for bar in block.bars
    ]
    return stacked(shares, f"share {block.whole} (%)")
