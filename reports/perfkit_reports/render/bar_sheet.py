"""Bars of time as a page draws them: widths, labels and a legend with figures."""

from typing import NamedTuple

from perfkit.analysis.model.step import TimeShare
from perfkit.core import units
from perfkit_reports.document.blocks import Bar, Bars
from perfkit_reports.palette import Fill, build_legend
from perfkit_reports.wording import format_bounded

_LABELED = 0.07  # of the width: the least part with a label of its own
_NAMED = 0.005  # of a single bar: the least part with an entry of its own in the legend
_REST = "other parts"


class BarPart(NamedTuple):
    """A part of a bar: its `width` as a share of the longest bar, the label in it, and all of it in words."""

    fill: Fill
    width: float
    label: str
    words: str


class BarRow(NamedTuple):
    """A bar with its name, and its parts of nonzero time in the order of the legend."""

    name: str
    parts: tuple[BarPart, ...]

    @property
    def words(self) -> str:
        """The bar for those who do not see it."""
        return f"{self.name}: {'; '.join(part.words for part in self.parts)}"


class BarSheet(NamedTuple):
    """Rows, and the legend: name, fill and figures, which are empty where there are several bars."""

    rows: tuple[BarRow, ...]
    legend: tuple[tuple[str, Fill, str], ...]


def build_bar_sheet(block: Bars) -> BarSheet:
    fills = dict(build_legend([bar.categories for bar in block.bars]))
    longest = max(sum(share.seconds for share in bar.shares) for bar in block.bars)
    rows = tuple(BarRow(bar.name, _build_parts(bar, block, fills, longest)) for bar in block.bars)
    if len(block.bars) > 1:
        return BarSheet(rows, tuple((name, fill, "") for name, fill in fills.items()))
    return BarSheet(rows, tuple(_list_figures(block.bars[0], fills)))


def _build_parts(bar: Bar, block: Bars, fills: dict[str, Fill], longest: float) -> tuple[BarPart, ...]:
    shares = {share.category: share for share in bar.shares if share.seconds > 0}
    parts = []
    for name, fill in fills.items():
        if name in shares:
            share = shares[name]
            width = share.seconds / longest if block.to_scale else share.share
            label = units.format_seconds(share.seconds) if width >= _LABELED else ""
            parts.append(BarPart(fill, width, label, f"{name} {_format_figures(share)} {block.whole}"))
    return tuple(parts)


def _list_figures(bar: Bar, fills: dict[str, Fill]) -> list[tuple[str, Fill, str]]:
    """Of each named part its figures, and the sum of all others."""
    shares = {share.category: share for share in bar.shares if share.seconds > 0}
    named = {name: shares[name] for name in fills if shares[name].share >= _NAMED}
    rest = [shares[name] for name in fills if name not in named]
    figures = [(name, fills[name], _format_figures(share)) for name, share in named.items()]
    if len(rest) == 1:
        return [*figures, (rest[0].category, fills[rest[0].category], _format_figures(rest[0]))]
    if rest:
        summed = TimeShare(
            category=_REST, seconds=sum(share.seconds for share in rest), share=sum(share.share for share in rest)
        )
        figures.append((_REST, fills[rest[0].category], _format_figures(summed)))
    return figures


def _format_figures(share: TimeShare) -> str:
    """`at least 1.20 s, 38 %`."""
    figures = f"{units.format_seconds(share.seconds)}, {units.format_percent(share.share)}"
    return format_bounded(figures, share.bound)
