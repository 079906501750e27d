"""Pieces of Markdown: headings, tables, folded blocks, and text that can form no markup."""

import re
from collections.abc import Sequence

from perfkit_reports.document.cells import Cell
from perfkit_reports.render.footnotes import Footnotes


def safe(text: str) -> str:
    """One line in which nothing is markup: tags, links, emphasis, code, cells."""
    escaped = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escaped)


def heading(level: int, title: str) -> str:
    return f"{'#' * level} {safe(title)}"


def cell(item: Cell, notes: Footnotes | None = None) -> str:
    """A cell's text and detail; where it is not known, the number of the footnote that says why."""
    if not item.known:
        return item.text if notes is None else f"{item.text} ({notes.number(item.reason)})"
    return safe(f"{item.text} ({item.detail})" if item.detail else item.text)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fenced(text: str) -> str:
    """A block of code, whose fence is longer than any run of backticks within."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"


def folded(title: str, text: str) -> str:
    """A block of code that GitHub folds."""
    return f"<details><summary>{safe(title)}</summary>\n\n{fenced(text)}\n\n</details>"
