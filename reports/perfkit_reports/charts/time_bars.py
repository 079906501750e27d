"""Where time goes: one bar per variant, rank, step or stream, stacked to 100 %."""

from collections.abc import Sequence

from perfkit import units
from perfkit.analysis.model.step import TimeShare
from perfkit_reports.charts.frame import Figure, hover, row_bars, rows, safe
from perfkit_reports.document.blocks import Bar, Bars, Chart
from perfkit_reports.palette import legend
from perfkit_reports.wording import bounded


def chart(block: Bars) -> Chart:
    """The block as a chart, which a page and files draw."""
    return Chart(
        id=block.id,
        weight=block.weight,
        figure=time_split(block.bars, block.whole) or {},
        label=block.label,
        title=block.title,
        caption=block.caption,
        legend=[(name, fill.colour, fill.pattern) for name, fill in legend([bar.categories for bar in block.bars])],
    )


def time_split(bars: Sequence[Bar], whole: str = "of the step") -> Figure | None:
    """None without bars; `whole` says in hover texts what 100 % is."""
    if not bars:
        return None
    traces = []
    for category, fill in legend([bar.categories for bar in bars]):
        parts = [(bar, share) for bar in bars for share in bar.shares if share.category == category]
        traces.append(
            row_bars(
                fill,
                [(bar.name, share.share * 100, _told(bar, share, whole)) for bar, share in parts],
                name=safe(category),
                text=[units.percent(share.share, 0) if share.share >= 0.06 else "" for _, share in parts],
                textposition="inside",
                insidetextanchor="middle",
                insidetextfont={"weight": 600},
                textangle=0,
            )
        )
    return rows(
        traces,
        [bar.name for bar in bars],
        barmode="stack",
        margin={"l": 18, "r": 24, "t": 6, "b": 40},
        xaxis={"range": [0, 100], "ticksuffix": " %", "ticklabeloverflow": "allow", "fixedrange": True},
    )


def _told(bar: Bar, share: TimeShare, whole: str) -> str:
    percent = bounded(units.percent(share.share), share.bound)
    return hover(f"{bar.name}: {share.category}", f"{percent} {whole}, {units.seconds(share.seconds)}")
