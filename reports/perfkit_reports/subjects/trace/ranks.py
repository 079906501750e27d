"""The ranks of a job: stragglers, and where ranks differ."""

from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.ranks.pipeline import build_pipeline as pipeline_of
from perfkit_reports.charts import rank_charts as chart
from perfkit_reports.charts import rank_step_map
from perfkit_reports.document.blocks import Section
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.pipelines import build_sections
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace import trace_columns, trace_sentences

_ROWS = 128


def build_ranks_section(analysis: TraceAnalysis) -> Section | None:
    fleet = analysis.fleet
    if fleet is None or len(fleet.ranks) < 2:
        return None
    slowest = sorted(fleet.ranks, key=lambda row: -row.step_s)
    blocks = (
        *make_list("fleet", trace_sentences.describe_fleet(fleet), style="paragraph", weight=Weight.BRIEF),
        chart.build_chart(fleet.ranks, {trace.label: trace.time_split for trace in analysis.traces}),
        *(() if fleet.grid is None else rank_step_map.build_charts(fleet.grid, "rank-steps")),
        *make_table("ranks", "Ranks, slowest first", trace_columns.RANKS, slowest, "rank", limit=_ROWS),
        *make_table("skew", "Waits at collectives", trace_columns.SKEW, fleet.skew, "collective", sorted="Mean wait"),
    )
    return Section("ranks", "Ranks", blocks)


def build_pipeline_section(analysis: TraceAnalysis) -> Section | None:
    """Build the pipeline, where traces mark the actions of stages."""
    actions = {
        trace.rank: trace.stage_actions
        for trace in analysis.traces
        if trace.rank is not None and trace.stage_actions is not None
    }
    rows = () if analysis.fleet is None else analysis.fleet.ranks
    ahead = {row.rank: round(1e9 * (row.clock_offset_s or 0.0)) for row in rows if row.rank is not None}
    pipeline = pipeline_of(actions, ahead)
    return None if pipeline is None else next(build_sections([("the pipeline", pipeline)]))
