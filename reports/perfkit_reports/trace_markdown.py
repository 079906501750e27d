"""The report on traces as Markdown, for pull requests and chat."""

from collections.abc import Sequence

from perfkit import units
from perfkit.analysis.model.trace import RankTrace, TraceAnalysis
from perfkit_reports import memory_markdown, trace_columns, trace_headline, trace_story
from perfkit_reports.cells import bounded
from perfkit_reports.columns import Column, Row, is_known, telling
from perfkit_reports.document.blocks import Bar
from perfkit_reports.marks import columns, footnotes, found, method, safe, table
from perfkit_reports.palette import ordered_categories
from perfkit_reports.render.footnotes import Footnotes
from perfkit_reports.trace_headline import ceilings_of
from perfkit_reports.trace_series import every_trace, focus, memory_holders, trace_bars

_ROWS = 15


def render(analysis: TraceAnalysis) -> str:
    """The whole document. Text from the analysis is escaped, so that it can form no markup."""
    notes = Footnotes()
    trace = focus(analysis)
    parts = [f"# {safe(analysis.title)}: perfkit report", f"**{safe(trace_headline.headline(analysis))}**"]
    remarks = trace_headline.remarks(analysis)
    if remarks:
        parts.append(safe(" ".join(remarks)))
    parts += [
        _tiles(analysis),
        *found(analysis.findings, "Trace" if len(analysis.traces) > 1 else ""),
        *_changes(analysis, notes),
    ]
    split = _split(trace_bars(analysis))
    parts += ["## Where the time went", *split] if split else []
    if trace is not None:
        parts += [*_won(trace, notes), *memory_markdown.section(memory_holders(analysis), "Trace")]
        parts += [*_ranks(analysis, notes), *_device(trace, notes), *_coverage(trace, notes)]
    parts += ["## How it was read", _cut(trace_columns.TRACES, every_trace(analysis), notes), *_notes(analysis)]
    parts += method(ceilings_of(every_trace(analysis)), analysis.provenance, analysis.warnings)
    if analysis.command:
        parts.append(f"Command: {safe(analysis.command)}")
    return "\n\n".join([*parts, *footnotes(notes)]) + "\n"


def _tiles(analysis: TraceAnalysis) -> str:
    return "\n".join(
        f"- {title}: {safe(f'{item.text} ({item.detail})' if is_known(item) else f'not known: {item.reason}')}"
        for title, item in trace_headline.tiles(analysis)
    )


def _changes(analysis: TraceAnalysis, notes: Footnotes) -> list[str]:
    difference = analysis.difference
    if difference is None:
        return []
    lines = [f"- {safe(line)}" for line in trace_story.difference(difference)]
    return [
        "## What changed",
        "\n".join(lines),
        _cut(trace_columns.CHANGES, difference.changes, notes),
    ]


def _split(bars: Sequence[Bar]) -> list[str]:
    categories = ordered_categories([[share.category for share in bar.shares] for bar in bars])
    rows = []
    for bar in bars:
        shares = {share.category: bounded(units.percent(share.share), share.bound) for share in bar.shares}
        rows.append([safe(bar.name), *(shares.get(category, units.percent(0.0)) for category in categories)])
    return [table(["", *map(safe, categories)], rows)] if rows else []


def _won(trace: RankTrace, notes: Footnotes) -> list[str]:
    of, rows = (trace_columns.KERNELS, trace.kernels) if trace.kernels else (trace_columns.OPS, trace.ops)
    return [f"## What you could win in {safe(trace.label)}", _cut(of, rows, notes)] if rows else []


def _ranks(analysis: TraceAnalysis, notes: Footnotes) -> list[str]:
    fleet = analysis.fleet
    if fleet is None or len(fleet.ranks) < 2:
        return []
    slowest = sorted(fleet.ranks, key=lambda row: -row.step_s)
    lines = "\n".join(f"- {safe(line)}" for line in trace_story.fleet(fleet))
    skew = [_cut(trace_columns.SKEW, fleet.skew, notes)] if fleet.skew else []
    return ["## Ranks, the slowest first", lines, _cut(trace_columns.RANKS, slowest, notes), *skew]


def _device(trace: RankTrace, notes: Footnotes) -> list[str]:
    told = [*trace_story.launches(trace), *trace_story.overlap(trace), trace_story.recompute(trace)]
    lines = "\n".join(f"- {safe(line)}" for line in told if line)
    parts = [f"## Launches, communication and copies of {safe(trace.label)}", *([lines] if lines else [])]
    tables = [_cut(trace_columns.COLLECTIVES, trace.collectives, notes)] if trace.collectives else []
    tables += [_cut(trace_columns.COPIES, trace.copies, notes)] if trace.copies else []
    return [*parts, *tables] if lines or tables else []


def _coverage(trace: RankTrace, notes: Footnotes) -> list[str]:
    uncovered = trace.coverage.uncovered
    missing = [_cut(trace_columns.UNCOVERED, uncovered, notes)] if uncovered else []
    return [
        "## How much of it is explained",
        safe(f"{trace_story.coverage(trace)} {trace_story.utilisation(trace)}"),
        *missing,
    ]


def _notes(analysis: TraceAnalysis) -> list[str]:
    lines = [
        f"- {safe(trace.label)}: {safe(note)}"
        for trace in every_trace(analysis)
        for note in (*trace.reading.notes, *trace.notes)
    ]
    return ["\n".join(lines)] if lines else []


def _cut(of: Sequence[Column[Row]], rows: Sequence[Row], notes: Footnotes) -> str:
    """A table of the first rows, with what it leaves out."""
    shown = rows[:_ROWS]
    rest = f"\n\n{len(rows) - len(shown):,} more in tables/" if len(rows) > len(shown) else ""
    return columns(telling(of, shown), shown, notes) + rest
