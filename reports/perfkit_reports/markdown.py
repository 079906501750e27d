"""The report as Markdown, for pull requests and chat: summary, findings, time, memory, operations, environment."""

from perfkit import units
from perfkit.analysis.result import Analysis, Estimate, Variant
from perfkit.record import Measurement, Status
from perfkit_reports import cells, environment, headline, memory_markdown, memory_story, ops
from perfkit_reports.footnotes import Footnotes
from perfkit_reports.holders import of_variants
from perfkit_reports.marks import cell, columns, folded, footnotes, found, method, safe, table

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
        *found(analysis.findings, "Variant"),
        *_time(analysis),
        *memory_markdown.section(of_variants(analysis), "Variant"),
        *_ops(analysis),
        *_environment(analysis),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(analysis: Analysis, notes: Footnotes) -> str:
    shown = [
        ("Step time", cells.step_time),
        ("Speed-up", cells.speed_up),
        ("Verdict", cells.verdict),
        ("Throughput", cells.throughput),
        ("Peak memory", cells.peak_memory),
        ("MFU", cells.mfu),
        ("HFU", cells.hfu),
        ("Loss", cells.loss_parity),
        ("Engaged", cells.engaged),
    ]
    if any(isinstance(variant.energy_per_step, Measurement) for variant in analysis.variants):
        shown.insert(7, ("Energy a step", cells.energy))
    rows = []
    for variant in analysis.variants:
        row = [f"**{safe(variant.name)}**", safe(variant.status.value)]
        if _measured(variant):
            row += [cell(column(variant), notes) for _, column in shown]
        else:
            row += ["–"] * len(shown)
        rows.append(row)
    return table(["Variant", "Status", *(title for title, _ in shown)], rows)


def _not_measured(analysis: Analysis) -> list[str]:
    """What stands in for the figures of variants that have none."""
    parts = []
    for variant in analysis.variants:
        if not _measured(variant):
            reason = variant.reason or "no reason was recorded"
            alive = memory_story.failure(variant.memory)[:2] if variant.memory else []
            parts.append(f"- **{safe(variant.name)}** ({variant.status.value}): {safe(' '.join([reason, *alive]))}")
        if variant.traceback:
            parts.append(folded(f"Traceback of {variant.name}", variant.traceback))
    return parts


def _time(analysis: Analysis) -> list[str]:
    variants = [variant for variant in analysis.variants if variant.time_split]
    if not variants:
        return []
    categories = list(dict.fromkeys(share.category for variant in variants for share in variant.time_split))
    rows = []
    for variant in variants:
        shares = {share.category: share.share for share in variant.time_split}
        rows.append([safe(variant.name), *(units.percent(shares.get(category, 0.0)) for category in categories)])
    return ["## Where a step's time goes", table(["Variant", *map(safe, categories)], rows)]


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
