"""The report.html on traces: text from the templates, figures drawn by the plotly.js inside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit.analysis.model.step import OUTSIDE, OpRow
from perfkit.analysis.model.trace import RankTrace, TraceAnalysis
from perfkit_reports import memory_section, trace_columns, trace_headline, trace_story
from perfkit_reports.cells import plural
from perfkit_reports.charts.roofline import kinds, left_out
from perfkit_reports.columns import Column, telling
from perfkit_reports.figures.traces import trace_figures
from perfkit_reports.page import page
from perfkit_reports.palette import legend
from perfkit_reports.trace_series import (
    detailed,
    every_trace,
    focus,
    memory_holders,
    plane,
    step_bars,
    stream_bars,
    trace_bars,
)

ROWS = 80  # of a table of kernels, ops or modules of one trace
SHORT = 40  # rows of the other tables, and of those of several traces


@dataclass(frozen=True)
class Panel:
    """A table of what could be won: `total` rows are cut to `rows`."""

    id: str
    kind: str
    trace: RankTrace
    columns: list[Column[OpRow]]
    rows: tuple[OpRow, ...]
    total: int

    @property
    def overlapping(self) -> bool:
        """Whether the rows take longer than there is time, so that some of them ran at once."""
        return self.kind in ("kernels", "ops") and sum(row.share for row in self.rows if row.phase != OUTSIDE) > 1.001


def render(analysis: TraceAnalysis) -> str:
    """The whole page. Everything from the analysis is escaped; nothing is fetched when it is opened."""
    roofline = plane(analysis)
    traces = detailed(analysis)
    figures = trace_figures(analysis, roofline)
    bars = trace_bars(analysis)
    bars += [bar for trace in traces for bar in step_bars(trace) + stream_bars(trace)]
    first = focus(analysis)
    return page(
        "trace/page.html.j2",
        figures,
        analysis=analysis,
        name_owners=len(analysis.traces) > 1,
        every_trace=every_trace(analysis),
        known_ceilings=trace_headline.ceilings_of(every_trace(analysis)),
        sections=_sections(analysis, traces),
        first=first,
        traces=traces,
        columns=trace_columns,
        headline=trace_headline,
        story=trace_story,
        tiles=trace_headline.tiles(analysis),
        no_roofline=trace_headline.without_roofline(first) if first else "",
        plane=roofline,
        kinds=kinds(roofline),
        left_out=left_out(roofline),
        panels=_panels(traces),
        time_legend=legend([[share.category for share in bar.shares if share.share > 0] for bar in bars]),
        rank_legend=legend([[str(bar["name"]) for bar in figures["ranks"]["data"] if bar["type"] == "bar"]])
        if "ranks" in figures
        else [],
        cut=cut,
        shown=shown,
        **memory_section.context(memory_holders(analysis), "trace"),
    )


def cut(total: int, kept: int, what: str, table: str) -> str:
    """What a table leaves out and where it is; empty where it leaves out nothing."""
    return "" if total <= kept else f"{kept:,} of {plural(total, what)} shown; all are in tables/{table}.parquet."


def shown(rows: Sequence[object]) -> Sequence[object]:
    """The first rows of a table that is no table of costs."""
    return rows[:SHORT]


def _panels(traces: Sequence[RankTrace]) -> list[Panel]:
    found = []
    for place, trace in enumerate(traces):
        for kind, columns, rows in (
            ("kernels", trace_columns.KERNELS, trace.kernels),
            ("ops", trace_columns.OPS, trace.ops),
            ("modules", trace_columns.MODULES, trace.modules),
            ("phases", trace_columns.PHASES, trace.phases),
        ):
            if rows and not (kind == "kernels" and trace.device == "cpu"):  # there an op is its own kernel
                kept = rows[: ROWS if len(traces) == 1 else SHORT]
                found.append(Panel(f"{kind}-{place}", kind, trace, telling(columns, kept), kept, len(rows)))
    return found


def _sections(analysis: TraceAnalysis, traces: Sequence[RankTrace]) -> list[tuple[str, str]]:
    """(id, title) of the sections that have something to say."""
    sections = [("summary", "Summary"), ("findings", "Findings")]
    if analysis.difference:
        sections.append(("changes", "What changed"))
    sections += [("time", "Time"), ("roofline", "Roofline"), ("win", "What to win")]
    if memory_holders(analysis):
        sections.append(("memory", "Memory"))
    if analysis.fleet and len(analysis.fleet.ranks) > 1:
        sections.append(("ranks", "Ranks"))
    if any(trace.launches or trace.streams for trace in traces):
        sections.append(("launches", "Launches"))
    if any(trace.collectives or trace.copies for trace in traces):
        sections.append(("transfers", "Communication"))
    return [*sections, ("coverage", "Coverage"), ("method", "Method")]
