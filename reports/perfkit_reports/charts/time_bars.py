"""Bars of time: one per variant, rank, step or stream, stacked to 100 %."""

from perfkit.analysis.model.step import TimeShare
from perfkit.core import units
from perfkit_reports.charts.frame import (
    Figure,
    build_axis,
    build_row_bars,
    build_row_figure,
    choose_time_scale,
    escape_text,
    format_hover,
)
from perfkit_reports.document.blocks import Bar, Bars, Chart
from perfkit_reports.palette import build_legend
from perfkit_reports.wording import format_bounded

_ROOM = 0.1  # of the width, for a time


def build_chart(block: Bars | Chart) -> Chart:
    """Convert a block of bars to a chart for pages and files; charts stay as they are."""
    if isinstance(block, Chart):
        return block
    return Chart(
        id=block.id,
        weight=block.weight,
        figure=_build_figure(block),
        label=block.label,
        title=block.title,
        caption=block.caption,
        legend=[
            (name, fill.color, fill.pattern) for name, fill in build_legend([bar.categories for bar in block.bars])
        ],
    )


def _build_figure(block: Bars) -> Figure:
    traces = []
    longest = max(sum(share.seconds for share in bar.shares) for bar in block.bars)
    scale, unit = choose_time_scale(longest)
    for category, fill in build_legend([bar.categories for bar in block.bars]):
        parts = [(bar, share) for bar in block.bars for share in bar.shares if share.category == category]
        traces.append(
            build_row_bars(
                fill,
                [
                    (
                        bar.name,
                        share.seconds / scale if block.to_scale else share.share * 100,
                        _format_hover(bar, share, block.whole),
                    )
                    for bar, share in parts
                ],
                name=escape_text(category),
                text=[_format_inner_text(share, longest if block.to_scale else 0.0) for _, share in parts],
                textposition="inside",
                insidetextanchor="middle",
                insidetextfont={"weight": 600},
                textangle=0,
            )
        )
    return build_row_figure(
        traces,
        [bar.name for bar in block.bars],
        barmode="stack",
        uniformtext={"mode": "hide", "minsize": 10},  # what does not fit would be too small to read
        margin={"l": 18, "r": 24, "t": 6, "b": 40},
        xaxis=build_axis(f"time ({unit})", range=[0, longest / scale], fixedrange=True)
        if block.to_scale
        else {"range": [0, 100], "ticksuffix": " %", "ticklabeloverflow": "allow", "fixedrange": True},
    )


def _format_inner_text(share: TimeShare, longest: float) -> str:
    """The label of a part with room: its time in bars to scale, where the `longest` fills the width."""
    room = share.seconds / longest if longest else share.share
    if room < (_ROOM if longest else 0.06):
        return ""
    return units.format_seconds(share.seconds) if longest else units.format_percent(share.share, 0)


def _format_hover(bar: Bar, share: TimeShare, whole: str) -> str:
    percent = format_bounded(units.format_percent(share.share), share.bound)
    return format_hover(f"{bar.name}: {share.category}", f"{percent} {whole}, {units.format_seconds(share.seconds)}")
