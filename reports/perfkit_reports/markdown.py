"""The report as Markdown, for pull requests and chat: summary, findings, time, memory, operations, environment."""

from perfkit import units
from perfkit.analysis.model.estimate import Estimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.record import Status
from perfkit_reports import environment, headline, memory_markdown, ops, watched
from perfkit_reports.cells import Cell, bounded
from perfkit_reports.columns import is_known
from perfkit_reports.holders import of_variants
from perfkit_reports.marks import cell, columns, folded, footnotes, found, method, safe, table
from perfkit_reports.palette import ordered_categories
from perfkit_reports.render.footnotes import Footnotes
from perfkit_reports.subjects.memory import story as memory_story
from perfkit_reports.summary_columns import summary_columns
from perfkit_reports.variants import time_bars

_OPS_SHOWN = 10


def render(analysis: Analysis) -> str:
    """The whole document. Text from the analysis is escaped, so that it can form no markup."""
    notes = Footnotes()
    parts = [f"# {safe(analysis.title)}: perfkit report", f"**{safe(headline.headline(analysis))}**"]
    remarks = headline.remarks(analysis)
    if remarks:
        parts.append(safe(" ".join(remarks)))
    parts += [_summary(analysis, notes), *_not_measured(analysis)]
    parts += footnotes(notes)
    parts += [
        *found(analysis.findings, headline.word(analysis).capitalize() if headline.names_owners(analysis) else ""),
        *_time(analysis),
        *memory_markdown.section(of_variants(analysis), headline.word(analysis).capitalize()),
        *_ops(analysis),
        *_watched(analysis),
        *_environment(analysis),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(analysis: Analysis, notes: Footnotes) -> str:
    shown = summary_columns(analysis)
    rows = []
    for variant in analysis.variants:
        row = [f"**{safe(variant.name)}**", safe(variant.status.value)]
        if _measured(variant):
            row += [cell(column.cell(variant), notes) for column in shown]
        else:
            row += ["–"] * len(shown)
        rows.append(row)
    return table([headline.word(analysis).capitalize(), "Status", *(column.title for column in shown)], rows)


def _not_measured(analysis: Analysis) -> list[str]:
    """What stands in for the figures of variants that have none."""
    parts = []
    for variant in analysis.variants:
        if not _measured(variant) and variant.loop is None:  # a loop's reason stands above
            reason = variant.reason or "no reason was recorded"
            alive = memory_story.failure(variant.memory)[:2] if variant.memory else []
            parts.append(f"- **{safe(variant.name)}** ({variant.status.value}): {safe(' '.join([reason, *alive]))}")
        if variant.traceback:
            parts.append(folded(f"Traceback of {variant.name}", variant.traceback))
    return parts


def _time(analysis: Analysis) -> list[str]:
    bars = time_bars(analysis)
    if not bars:
        return []
    categories = ordered_categories([bar.categories for bar in bars])
    rows = []
    for bar in bars:
        shares = {share.category: bounded(units.percent(share.share), share.bound) for share in bar.shares}
        rows.append([safe(bar.name), *(shares.get(category, units.percent(0.0)) for category in categories)])
    title = headline.word(analysis).capitalize()
    return ["## Where a step's time goes", table([title, *map(safe, categories)], rows)]


def _ops(analysis: Analysis) -> list[str]:
    """The most expensive operations of the baseline, or of the first variant that was traced."""
    traced = sorted(
        (variant for variant in analysis.variants if variant.ops), key=lambda variant: not variant.is_baseline
    )
    if not traced:
        return []
    rows = sorted(traced[0].ops, key=lambda row: -row.seconds)[:_OPS_SHOWN]
    some = [
        column
        for column in ops.COLUMNS
        if column.title in ("Op", "Time", "Share", "To win", "Of roof", "Bound", "Phase", "Module")
    ]
    return [f"## Most expensive operations of {safe(traced[0].name)}", columns(some, rows)]


def _watched(analysis: Analysis) -> list[str]:
    parts = []
    for variant, loop in watched.loops(analysis):
        lines = [f"- {safe(name)}: {_value(item)}" for name, item in watched.facts(loop)]
        lines += [f"- {safe(warning)}" for warning in variant.warnings]
        parts += [f"## How {safe(variant.name)} was watched", "\n".join(lines)]
        if len(loop.ranks) > 1:
            parts.append(columns(watched.RANKS, loop.ranks))
    return parts


def _value(item: Cell) -> str:
    return safe(f"n/a ({item.reason})") if not is_known(item) else cell(item)


def _environment(analysis: Analysis) -> list[str]:
    lines = [
        ("Workload", analysis.workload),
        ("Command", analysis.command),
        ("perfkit", analysis.perfkit),
        ("Date", analysis.created_at),
    ]
    if analysis.environment is not None:
        lines += [(name, cell.text) for name, cell in environment.environment_items(analysis.environment)]
    parts = ["## Environment", "\n".join(f"- {safe(name)}: {safe(value or 'n/a')}" for name, value in lines)]
    return [*parts, *method([analysis.ceilings] if analysis.ceilings else [], analysis.provenance, analysis.warnings)]


def _measured(variant: Variant) -> bool:
    return variant.status == Status.OK or isinstance(variant.step_time, Estimate)
