"""The report as Markdown, for pull requests and chat: summary, findings, time, memory, operations, environment."""

import re
from collections.abc import Sequence

from perfkit import units
from perfkit.analysis.result import Analysis, Estimate, Variant
from perfkit.record import Measurement, Status
from perfkit_reports import balance, cells, environment, findings, headline, ops
from perfkit_reports.cells import Cell
from perfkit_reports.footnotes import Footnotes

_OPS_SHOWN = 10


def render(analysis: Analysis) -> str:
    """The whole document. Text from the analysis is escaped, so that it can form no markup."""
    notes = Footnotes()
    parts = [f"# {_safe(analysis.title)}: perfkit report", f"**{_safe(headline.headline(analysis))}**"]
    remarks = headline.remarks(analysis)
    if remarks:
        parts.append(_safe(" ".join(remarks)))
    parts += [_summary(analysis, notes), *_not_measured(analysis)]
    if notes.reasons:
        parts.append("\n".join(f"{number}. n/a: {_safe(reason)}" for number, reason in enumerate(notes.reasons, 1)))
    parts += [*_findings(analysis), *_time(analysis), *_memory(analysis), *_ops(analysis), *_environment(analysis)]
    return "\n\n".join(parts) + "\n"


def _summary(analysis: Analysis, notes: Footnotes) -> str:
    columns = [
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
        columns.insert(7, ("Energy a step", cells.energy))
    rows = []
    for variant in analysis.variants:
        row = [f"**{_safe(variant.name)}**", _safe(variant.status.value)]
        if _measured(variant):
            row += [_cell(column(variant), notes) for _, column in columns]
        else:
            row += ["–"] * len(columns)
        rows.append(row)
    return _table(["Variant", "Status", *(title for title, _ in columns)], rows)


def _not_measured(analysis: Analysis) -> list[str]:
    """What stands in for the figures of variants that have none."""
    parts = []
    for variant in analysis.variants:
        if not _measured(variant):
            reason = _safe(variant.reason or "no reason was recorded")
            parts.append(f"- **{_safe(variant.name)}** ({variant.status.value}): {reason}")
        if variant.traceback:
            parts.append(_folded(f"Traceback of {variant.name}", variant.traceback))
    return parts


def _findings(analysis: Analysis) -> list[str]:
    if not analysis.findings:
        return []
    lines = ["## Findings", ""]
    for finding in analysis.findings:
        parts = [f"**{findings.word(finding)}: {_safe(finding.title)}**."]
        if finding.variant:
            parts.append(f"Variant: {_safe(finding.variant)}.")
        if findings.gain(finding):
            parts.append(f"Up to {findings.gain(finding)}.")
        parts.append(_safe(finding.evidence))
        if finding.action:
            parts.append(f"**Do:** {_safe(finding.action)}")
        lines.append(f"- {' '.join(parts)}")
    return ["\n".join(lines)]


def _time(analysis: Analysis) -> list[str]:
    variants = [variant for variant in analysis.variants if variant.time_split]
    if not variants:
        return []
    categories = list(dict.fromkeys(share.category for variant in variants for share in variant.time_split))
    rows = []
    for variant in variants:
        shares = {share.category: share.share for share in variant.time_split}
        rows.append([_safe(variant.name), *(units.percent(shares.get(category, 0.0)) for category in categories)])
    return ["## Where a step's time goes", _table(["Variant", *map(_safe, categories)], rows)]


def _memory(analysis: Analysis) -> list[str]:
    rows = [
        [
            _safe(variant.name),
            _safe(balance.balance_line(variant.memory)),
            _safe(balance.beyond_line(variant.memory) or "n/a"),
        ]
        for variant in analysis.variants
        if variant.memory is not None
    ]
    if not rows:
        return []
    return ["## What fills the memory", _table(["Variant", "Balance at the peak", "Outside the allocator"], rows)]


def _ops(analysis: Analysis) -> list[str]:
    """The most expensive operations of the baseline, or of the first variant that was traced."""
    traced = sorted(
        (variant for variant in analysis.variants if variant.ops), key=lambda variant: not variant.is_baseline
    )
    if not traced:
        return []
    rows = sorted(traced[0].ops, key=lambda row: -row.seconds)[:_OPS_SHOWN]
    columns = [
        column
        for column in ops.COLUMNS
        if column.title in ("Op", "Time", "Share", "To win", "Of roof", "Bound", "Phase", "Module")
    ]
    return [
        f"## Most expensive operations of {_safe(traced[0].name)}",
        _table(
            [column.title for column in columns], [[_safe(column.cell(row).text) for column in columns] for row in rows]
        ),
    ]


def _environment(analysis: Analysis) -> list[str]:
    lines = [
        ("Workload", analysis.workload),
        ("Command", analysis.command),
        ("perfkit", analysis.perfkit),
        ("Date", analysis.created_at),
    ]
    if analysis.environment is not None:
        lines += [(name, cell.text) for name, cell in environment.environment_items(analysis.environment)]
    parts = ["## Environment", "\n".join(f"- {_safe(name)}: {_safe(value or 'n/a')}" for name, value in lines)]
    if analysis.ceilings is not None:
        rows = [[_safe(cell.text) for cell in row] for row in environment.ceiling_rows(analysis)]
        parts += ["## Ceilings", _table(list(environment.CEILING_TITLES), rows)]
    if analysis.provenance:
        rows = [[_safe(item.figure), _safe(item.how), _safe(item.detail)] for item in analysis.provenance]
        parts += ["## How each figure was obtained", _table(["Figure", "How", "Detail"], rows)]
    if analysis.warnings:
        parts += ["## Warnings", "\n".join(f"- {_safe(warning)}" for warning in analysis.warnings)]
    return parts


def _measured(variant: Variant) -> bool:
    return variant.status == Status.OK or isinstance(variant.step_time, Estimate)


def _cell(cell: Cell, notes: Footnotes) -> str:
    if cell.reason and cell.text == cells.NOT_KNOWN:
        return f"n/a ({notes.number(cell.reason)})"
    return _safe(f"{cell.text} ({cell.detail})" if cell.detail else cell.text)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _folded(title: str, text: str) -> str:
    """A block of code that GitHub folds; its fence is longer than any run of backticks within."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"<details><summary>{_safe(title)}</summary>\n\n{fence}\n{text.rstrip()}\n{fence}\n\n</details>"


def _safe(text: str) -> str:
    """One line in which nothing is markup: tags, links, emphasis, code, cells."""
    escaped = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escaped)
