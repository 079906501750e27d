"""The ranks of a job: stragglers, and where ranks differ."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.ranks.pipeline import build_pipeline as pipeline_of
from perfkit_reports.charts import exchange_map, rank_step_map
from perfkit_reports.charts import rank_charts as chart
from perfkit_reports.document.blocks import Block, Group, Section
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.pipelines import build_sections
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace import trace_columns, trace_sentences

_ROWS = 128


def build_ranks_section(analysis: TraceAnalysis) -> Section | None:
    """The ranks of each job as charts, that with most ranks first."""
    splits = {trace.label: trace.time_split for trace in analysis.traces}
    blocks = _build_jobs(analysis, "ranks", lambda fleet, end: _build_charts(fleet, splits, end))
    return Section("ranks", "Ranks", blocks) if blocks else None


def build_rank_tables(analysis: TraceAnalysis) -> tuple[Block, ...]:
    """Tables of ranks and collectives of each job, and what ranks send to which others."""
    return _build_jobs(analysis, "rank-tables", _build_tables)


def _build_jobs(
    analysis: TraceAnalysis, name: str, build: Callable[[Fleet, str], Iterator[Block]]
) -> tuple[Block, ...]:
    """Blocks of each job of several ranks; of several jobs each under its name."""
    fleets = [fleet for fleet in analysis.fleets if len(fleet.ranks) > 1]
    if len(fleets) <= 1:
        return tuple(block for fleet in fleets for block in build(fleet, ""))
    return tuple(
        Group(id=f"{name}-job{place}", title=f"Job {fleet.job}", blocks=tuple(build(fleet, f"-job{place}")))
        for place, fleet in enumerate(fleets)
    )


def _build_charts(fleet: Fleet, splits: Mapping[str, Sequence[TimeShare]], end: str) -> Iterator[Block]:
    yield from make_list(f"fleet{end}", trace_sentences.describe_fleet(fleet), style="paragraph", weight=Weight.BRIEF)
    # Of many ranks only some are analyzed in full: then all are split alike, as their rows allow.
    full = all(row.label in splits for row in fleet.ranks)
    bars = chart.build_chart(fleet.ranks, splits if full else {}, f"ranks-chart{end}")
    if fleet.grid is None:
        yield bars
    else:
        maps = rank_step_map.build_charts(fleet.grid, f"rank-steps{end}")
        yield Group(id=f"rank-charts{end}", blocks=(bars, maps), beside=True)


def _build_tables(fleet: Fleet, end: str) -> Iterator[Block]:
    slowest = sorted(fleet.ranks, key=lambda row: -row.step_s)
    yield from make_table(f"ranks{end}", "Ranks, slowest first", trace_columns.RANKS, slowest, "rank", limit=_ROWS)
    yield from make_table(
        f"skew{end}", "Waits at collectives", trace_columns.SKEW, fleet.skew, "collective", sorted="Wait per step"
    )
    yield from make_table(
        f"timings{end}", "Latency of collectives", trace_columns.TIMINGS, fleet.timings, "kind of collective"
    )
    if fleet.exchange is not None:
        yield exchange_map.build_chart(fleet.exchange, f"exchange-chart{end}")


def build_pipeline_section(analysis: TraceAnalysis) -> Section | None:
    """Build the pipeline, where traces mark the actions of stages."""
    actions = {
        trace.rank: trace.stage_actions
        for trace in analysis.traces
        if trace.rank is not None and trace.stage_actions is not None
    }
    rows = [row for fleet in analysis.fleets[:1] for row in fleet.ranks]
    ahead = {row.rank: round(1e9 * (row.clock_offset_s or 0.0)) for row in rows if row.rank is not None}
    pipeline = pipeline_of(actions, ahead)
    return None if pipeline is None else next(build_sections([("the pipeline", pipeline)]))
