"""Pieces of a Markdown report: tables, folded blocks, findings, and text that can form no markup."""

import re
from collections.abc import Sequence

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.provenance import Provenance
from perfkit.devices.ceiling import DeviceCeilings
from perfkit_reports import environment, findings
from perfkit_reports.cells import Cell
from perfkit_reports.columns import Column, Row, is_known
from perfkit_reports.render.footnotes import Footnotes


def safe(text: str) -> str:
    """One line in which nothing is markup: tags, links, emphasis, code, cells."""
    escaped = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escaped)


def cell(item: Cell, notes: Footnotes | None = None) -> str:
    """A cell's text and detail; where it is not known, the number of the footnote that says why."""
    if not is_known(item):
        return item.text if notes is None else f"{item.text} ({notes.number(item.reason)})"
    return safe(f"{item.text} ({item.detail})" if item.detail else item.text)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def columns(of: Sequence[Column[Row]], rows: Sequence[Row], notes: Footnotes | None = None) -> str:
    """A table of `rows`."""
    return table(
        [safe(column.title) for column in of], [[cell(column.cell(row), notes) for column in of] for row in rows]
    )


def footnotes(notes: Footnotes) -> list[str]:
    """Why figures are not known; nothing where all are."""
    lines = [f"{number}. n/a: {safe(reason)}" for number, reason in enumerate(notes.reasons, 1)]
    return ["\n".join(lines)] if lines else []


def fenced(text: str) -> str:
    """A block of code, whose fence is longer than any run of backticks within."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"


def folded(title: str, text: str) -> str:
    """A block of code that GitHub folds."""
    return f"<details><summary>{safe(title)}</summary>\n\n{fenced(text)}\n\n</details>"


def found(items: Sequence[Finding], owner: str) -> list[str]:
    """The findings as a list; `owner` is what a finding is about: a variant or a trace, or empty for the only one."""
    lines = ["## Findings", ""]
    for finding in items:
        parts = [f"**{findings.word(finding)}: {safe(finding.title)}**."]
        if finding.variant and owner:
            parts.append(f"{owner}: {safe(finding.variant)}.")
        if worth := findings.worth(finding):
            parts.append(f"{worth[0].upper()}{worth[1:]}.")
        parts += [safe(line) for line in (findings.evidence(finding), *findings.details(finding))]
        if finding.action:
            parts.append(f"**Do:** {safe(findings.action(finding))}")
        lines.append(f"- {' '.join(parts)}")
    return ["\n".join(lines)] if items else []


def method(ceilings: Sequence[DeviceCeilings], provenance: Sequence[Provenance], warnings: Sequence[str]) -> list[str]:
    """The ceilings, how each figure was obtained, and what has to be known before relying on them."""
    parts = []
    for known in ceilings:
        of = f" of {safe(known.device_name)}" if len(ceilings) > 1 else ""
        parts += [f"## Ceilings{of}", columns(environment.CEILINGS, known.ceilings)]
    if provenance:
        rows = [[safe(item.figure), safe(item.how), safe(item.detail)] for item in provenance]
        parts += ["## How each figure was obtained", table(["Figure", "How", "Detail"], rows)]
    if warnings:
        parts += ["## Warnings", "\n".join(f"- {safe(warning)}" for warning in warnings)]
    return parts
