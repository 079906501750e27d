"""The ranks of a job: who is late, and where they differ."""

from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.charts import ranks as chart
from perfkit_reports.document.blocks import Block, Section, Text
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.tables import table
from perfkit_reports.subjects.trace import columns, story

_ROWS = 128


def ranks(analysis: TraceAnalysis) -> Section | None:
    fleet = analysis.fleet
    if fleet is None or len(fleet.ranks) < 2:
        return None
    blocks: list[Block] = []
    if told := story.fleet(fleet):
        blocks.append(Text(id="fleet", lines=tuple(told), weight=Weight.BRIEF))
    slowest = sorted(fleet.ranks, key=lambda row: -row.step_s)
    blocks += [
        chart.chart(fleet.ranks, {trace.label: trace.time_split for trace in analysis.traces}),
        *table("ranks", "Ranks, the slowest first", columns.RANKS, slowest, "rank", limit=_ROWS),
        *table("skew", "Who is waited for", columns.SKEW, fleet.skew, "collective", sorted="Waiting"),
    ]
    return Section("ranks", "Ranks", tuple(blocks))
